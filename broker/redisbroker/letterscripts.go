package redisbroker

import _ "embed"

//go:embed scripts/letter_rights.lua
var letterRightsLua string

//go:embed scripts/letter_write.lua
var letterWriteLua string

//go:embed scripts/letter_move.lua
var letterMoveLua string

//go:embed scripts/letter_find.lua
var letterFindLua string

//go:embed scripts/letter_move_item.lua
var letterMoveItemLua string

//go:embed scripts/letter_turn.lua
var letterTurnLua string

//go:embed scripts/letter_turn_end.lua
var letterTurnEndLua string

//go:embed scripts/letter_claim.lua
var letterClaimLua string

//go:embed scripts/letter_claim_item.lua
var letterClaimItemLua string

//go:embed scripts/letter_once.lua
var letterOnceLua string

// The scripts that move dead letters. No subscription needs them, so that they are loaded when one is first called.
var (
	letterMoveScript      = newScript(waitLua + letterRightsLua + letterWriteLua + letterMoveLua)
	letterMoveItemScript  = newScript(waitLua + letterRightsLua + letterWriteLua + letterFindLua + letterMoveItemLua)
	letterClaimScript     = newScript(letterRightsLua + letterTurnLua + letterClaimLua)
	letterClaimItemScript = newScript(letterRightsLua + letterFindLua + letterTurnLua + letterClaimItemLua)
	letterTurnEndScript   = newScript(letterTurnEndLua)
	letterOnceScript      = newScript(waitLua + letterRightsLua + letterWriteLua + letterOnceLua)
)
