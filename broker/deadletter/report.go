package deadletter

// reportedRefusals is how many refusals a report tells in full.
const reportedRefusals = 100

// Report says what a Replay or Purge has done; on a dry run, what it would have done.
type Report struct {
	// Examined counts the records that were looked at, Matched those of them that the filter lets through.
	Examined, Matched int
	// Done counts the records that were replayed or deleted.
	Done int
	// Gone counts those that somebody else replayed or deleted first.
	Gone int
	// Foreign counts entries that are no dead letters, and were therefore left alone.
	Foreign int
	// Refused counts those that could not be replayed and stand where they stood: replayed too often, no source, a target that
	// cannot take them. Refusals are the first hundred of them.
	Refused  int
	Refusals []Refusal
	// Cursor leads a later call on with Resume; "" where the end was reached.
	Cursor string
}

// Refusal is one record that was not replayed.
type Refusal struct {
	// ID is the record's.
	ID  string
	Err error
}

func (r *Report) refuse(id string, err error) {
	r.Refused++
	if len(r.Refusals) < reportedRefusals {
		r.Refusals = append(r.Refusals, Refusal{id, err})
	}
}
