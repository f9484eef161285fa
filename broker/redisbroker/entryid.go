package redisbroker

import (
	"cmp"
	"strconv"
	"strings"
)

// compareIDs orders two entry ids (ms-seq) as the stream does.
func compareIDs(a, b string) int {
	aMS, aSeq := splitID(a)
	bMS, bSeq := splitID(b)
	return cmp.Or(cmp.Compare(aMS, bMS), cmp.Compare(aSeq, bSeq))
}

func splitID(id string) (ms, seq uint64) {
	head, tail, _ := strings.Cut(id, "-")
	ms, _ = strconv.ParseUint(head, 10, 64)
	seq, _ = strconv.ParseUint(tail, 10, 64)
	return ms, seq
}
