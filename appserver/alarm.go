package appserver

import (
	"slices"
	"time"
)

// alarm is something to do later unless it is called off. All of it belongs to the loop.
type alarm struct {
	at  time.Time
	run func() // nil: called off
}

// off calls the alarm off; a nil alarm is off already.
func (al *alarm) off() {
	if al != nil {
		al.run = nil
	}
}

// alarms are few (one for each open call, and the grace of a cancel), so a slice in order of time does.
type alarms struct {
	pending []*alarm
	timer   *time.Timer
	set     time.Time // what timer is set to
}

func (as *alarms) after(d time.Duration, run func()) *alarm {
	al := &alarm{at: time.Now().Add(d), run: run}
	at, _ := slices.BinarySearchFunc(as.pending, al, func(x, y *alarm) int {
		if x.at.After(y.at) {
			return 1
		}
		return -1
	})
	as.pending = slices.Insert(as.pending, at, al)
	return al
}

// next is the channel of the earliest alarm, nil without one.
func (as *alarms) next() <-chan time.Time {
	for len(as.pending) > 0 && as.pending[0].run == nil {
		as.pending = as.pending[1:]
	}
	if len(as.pending) == 0 {
		return nil
	}
	first := as.pending[0].at
	switch {
	case as.timer == nil:
		as.timer = time.NewTimer(time.Until(first))
	case !first.Equal(as.set):
		as.timer.Reset(time.Until(first))
	}
	as.set = first
	return as.timer.C
}

// fire runs what is due.
func (as *alarms) fire(now time.Time) {
	as.set = time.Time{}
	for len(as.pending) > 0 && !as.pending[0].at.After(now) {
		al := as.pending[0]
		as.pending = as.pending[1:]
		if run := al.run; run != nil {
			al.run = nil
			run()
		}
	}
}

func (as *alarms) stop() {
	if as.timer != nil {
		as.timer.Stop()
	}
	as.pending = nil
}
