package main

import (
	"bytes"
	"encoding/json"
	"os"
)

// given is one thing that a scripted agent was given, as it noted it before it acted.
type given struct {
	Agent, Thread, Kind, ID, Text string
	PID                           int
}

// record reads what the agents of a world were given. A line that a kill cut off is left out.
func (w *world) record() ([]given, error) {
	b, err := os.ReadFile(w.path("record"))
	if os.IsNotExist(err) {
		return nil, nil
	}
	var all []given
	for line := range bytes.Lines(b) {
		var g given
		if json.Unmarshal(line, &g) == nil {
			all = append(all, g)
		}
	}
	return all, err
}
