package redisbroker

import "strings"

// hashTag returns what Redis Cluster hashes of a key: what stands between the first brace and the next closing one, if
// that is not empty, and else the whole key.
func hashTag(key string) (tag string, tagged bool) {
	if open := strings.IndexByte(key, '{'); open >= 0 {
		if length := strings.IndexByte(key[open+1:], '}'); length > 0 {
			return key[open+1 : open+1+length], true
		}
	}
	return key, false
}

// base is where the auxiliary keys of a stream live: they hash to the stream's own slot.
func base(stream string) string {
	if _, tagged := hashTag(stream); tagged {
		return stream
	}
	return "{" + stream + "}"
}
