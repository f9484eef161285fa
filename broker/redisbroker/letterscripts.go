package redisbroker

import _ "embed"

//go:embed scripts/letter_write.lua
var letterWriteLua string

//go:embed scripts/letter_move.lua
var letterMoveLua string

// The scripts that move dead letters.
var letterMoveScript = newScript(waitLua + letterWriteLua + letterMoveLua)
