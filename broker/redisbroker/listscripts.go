package redisbroker

import _ "embed"

//go:embed scripts/list_fence.lua
var listFenceLua string

//go:embed scripts/list_ack.lua
var listAckLua string

//go:embed scripts/list_check.lua
var listCheckLua string

//go:embed scripts/list_push.lua
var listPushLua string

//go:embed scripts/list_delay.lua
var listDelayLua string

//go:embed scripts/list_keep.lua
var listKeepLua string

//go:embed scripts/list_take.lua
var listTakeLua string

//go:embed scripts/list_putback.lua
var listPutBackLua string

//go:embed scripts/list_release.lua
var listReleaseLua string

//go:embed scripts/list_judge.lua
var listJudgeLua string

//go:embed scripts/list_restore.lua
var listRestoreLua string

//go:embed scripts/list_retire.lua
var listRetireLua string

//go:embed scripts/list_back.lua
var listBackLua string

//go:embed scripts/list_measure.lua
var listMeasureLua string

// The scripts of reliable lists. Those that settle begin with the fence.
var (
	listAckScript     = newScript(listFenceLua + listAckLua)
	listCheckScript   = newScript(listFenceLua + listCheckLua)
	listPushScript    = newScript(listFenceLua + boundLua + listPushLua)
	listDelayScript   = newScript(listFenceLua + scheduleLua + listDelayLua)
	listKeepScript    = newScript(listFenceLua + listKeepLua)
	listTakeScript    = newScript(listTakeLua)
	listPutBackScript = newScript(listPutBackLua)
	listReleaseScript = newScript(listReleaseLua)
	listJudgeScript   = newScript(listJudgeLua)
	listRestoreScript = newScript(listRestoreLua)
	listRetireScript  = newScript(listRetireLua)
	listMeasureScript = newScript(listMeasureLua)
	listBackScript    = newScript(listBackLua)

	listScripts = []*script{
		listAckScript, listCheckScript, listPushScript, listDelayScript, listKeepScript, listTakeScript,
		listPutBackScript, listReleaseScript, listJudgeScript, listRestoreScript, listRetireScript,
		listMeasureScript, listBackScript,
	}
)
