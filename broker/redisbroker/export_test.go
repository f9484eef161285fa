package redisbroker

// ListAckSHA names the script that takes items out of flight.
var ListAckSHA = listAckScript.sha
