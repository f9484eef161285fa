package redisbroker

import (
	"log/slog"
	"slices"
	"strings"

	"github.com/redis/go-redis/v9"
)

// apart tells whether two keys are kept in different slots of a cluster, so that no script may touch both. Two hash tags
// that happen to have the same slot count as different: the way of three steps is right for them as well.
func apart(client redis.UniversalClient, a, b string) bool {
	if _, ok := client.(*redis.ClusterClient); !ok {
		return false
	}
	tagA, _ := hashTag(a)
	tagB, _ := hashTag(b)
	return tagA != tagB
}

// anyApart tells whether one of the keys is in another slot than the source; "" is none.
func anyApart(client redis.UniversalClient, source string, others ...string) bool {
	return slices.ContainsFunc(others, func(key string) bool { return key != "" && apart(client, source, key) })
}

// warnApart names the keys of a mount that one atomic step cannot settle, and what would put them into one slot.
func warnApart(log *slog.Logger, client redis.UniversalClient, prefix, source string, others ...string) {
	for _, key := range others {
		if key == "" || !apart(client, source, key) {
			continue
		}
		log.Warn("two keys of a mount are in different cluster slots: they are settled in three steps, and a crash between them handles a message twice; "+
			"give both the same hash tag", "source", source, "other", key, "remedy", remedy(prefix, source, key))
	}
}

// remedy is how the two keys could be named. A prefix without a hash tag stands before both of them, and the stream alone
// does not hash as the other's tag would.
func remedy(prefix, source, key string) string {
	source, key = strings.TrimPrefix(source, prefix), strings.TrimPrefix(key, prefix)
	tag, tagged := hashTag(source)
	together := "{" + tag + "}"
	if rest, ok := strings.CutPrefix(key, source); ok && !tagged {
		together += rest
	} else {
		together += "." + strings.NewReplacer("{", "", "}", "").Replace(key)
	}
	switch {
	case tagged || prefix == "":
		return together + " instead of " + key
	default:
		return "{" + source + "} and " + together + " instead of " + source + " and " + key
	}
}
