package main

import (
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"strings"
	"time"
)

// demoReport prints what happens: a line as it happens for people, or an object a step for programs.
type demoReport struct {
	out    io.Writer
	json   bool
	began  time.Time
	broken func(error) // told once when the output cannot be written

	step  demoStepRecord
	since time.Time
	steps int // that passed
}

// demoStepRecord is one step, as --json prints it.
type demoStepRecord struct {
	Kind    string     `json:"kind"` // step
	Step    string     `json:"step"`
	OK      bool       `json:"ok"`
	Seconds float64    `json:"seconds"`
	Lines   []demoLine `json:"lines"`
	Error   string     `json:"error,omitempty"`
}

type demoLine struct {
	Runner string `json:"runner,omitempty"`
	Text   string `json:"text"`
}

// demoSummary is the last object that --json prints.
type demoSummary struct {
	Kind    string  `json:"kind"` // summary
	OK      bool    `json:"ok"`
	Steps   int     `json:"steps"` // that passed
	Failed  string  `json:"failed,omitempty"`
	Error   string  `json:"error,omitempty"`
	Seconds float64 `json:"seconds"`
	Version string  `json:"version"`
	Rung    string  `json:"rung,omitempty"`    // how the agents were contained
	Stopped string  `json:"stopped,omitempty"` // what session_close said of their processes
	Proof   string  `json:"proof,omitempty"`
	Left    []int   `json:"left"` // processes that were still there at the end, and were killed
	Folder  string  `json:"folder"`
	Kept    bool    `json:"kept"`
}

func (r *demoReport) write(text string) {
	if _, err := io.WriteString(r.out, text); err != nil && r.broken != nil {
		r.broken(err)
		r.broken = nil
	}
}

func (r *demoReport) object(v any) {
	var b strings.Builder
	e := json.NewEncoder(&b)
	e.SetEscapeHTML(false)
	if err := e.Encode(v); err != nil {
		panic(err) // strings and numbers
	}
	r.write(b.String())
}

func (r *demoReport) head(h *demoHome) {
	if r.json {
		return
	}
	r.write("baton " + version + " demo: two scripted agents that are part of this program; no login, no model, no network\n")
	r.write("folder " + h.dir + "\n\n")
}

func (r *demoReport) begin(name string) {
	r.step = demoStepRecord{Kind: "step", Step: name, Lines: []demoLine{}}
	r.since = time.Now()
}

func (r *demoReport) line(who, text string) {
	r.step.Lines = append(r.step.Lines, demoLine{who, text})
	if !r.json {
		r.write(fmt.Sprintf("%5.1fs  %-10s %-11s %s\n", time.Since(r.began).Seconds(), r.step.Step, who, text))
	}
}

func (r *demoReport) end(err error) {
	r.step.OK, r.step.Seconds = err == nil, demoRound(time.Since(r.since))
	if err == nil {
		r.steps++
	} else {
		r.step.Error = err.Error()
	}
	switch {
	case r.json:
		r.object(r.step)
	case err != nil && !errors.Is(err, errDemoEnded):
		r.line("FAILED", err.Error())
	}
}

func (r *demoReport) summary(d *demo, failed *demoFailure, left []demoProcess) {
	s := demoSummary{Kind: "summary", OK: failed == nil, Steps: r.steps, Seconds: demoRound(time.Since(r.began)), Version: version,
		Rung: d.rung, Stopped: d.stopped, Proof: d.proof, Left: []int{}, Folder: d.home.dir, Kept: d.home.keep}
	for _, p := range left {
		s.Left = append(s.Left, p.pid)
	}
	if failed != nil {
		s.Failed, s.Error = failed.step, failed.err.Error()
		if !errors.Is(failed.err, errDemoEnded) {
			fmt.Fprint(os.Stderr, d.home.logs)
		}
	}
	if r.json {
		r.object(s)
		return
	}
	folder := "folder removed"
	if d.home.keep {
		folder = "folder kept: " + d.home.dir
	}
	processes := "no process left"
	if len(left) > 0 {
		processes = fmt.Sprintf("processes left, and killed: %v", s.Left)
	}
	switch {
	case failed == nil:
		r.write(fmt.Sprintf("\ndemo passed: %d steps in %.1f s; process trees stopped: %s on rung %s; %s; %s\n", s.Steps, s.Seconds, s.Stopped, s.Rung, processes, folder))
	case errors.Is(failed.err, errDemoEnded):
		r.write(fmt.Sprintf("\ndemo interrupted in step %s after %.1f s; %s; %s\n", s.Failed, s.Seconds, processes, folder))
	default:
		r.write(fmt.Sprintf("\ndemo FAILED in step %s after %.1f s; %s; %s\n", s.Failed, s.Seconds, processes, folder))
	}
}

func demoRound(d time.Duration) float64 {
	return float64(d.Round(time.Millisecond)) / float64(time.Second)
}

// demoTails is the end of every log of a folder, for a demo that failed: the folder itself does not outlive it.
func demoTails(dir string, most int64) string {
	var b strings.Builder
	files, _ := filepath.Glob(filepath.Join(dir, "*.log")) // the pattern is well-formed
	for _, name := range files {
		f, err := os.Open(name)
		if err != nil {
			continue
		}
		if info, err := f.Stat(); err == nil && info.Size() > most {
			f.Seek(-most, io.SeekEnd)
		}
		text, _ := io.ReadAll(io.LimitReader(f, most))
		f.Close()
		if len(text) > 0 {
			fmt.Fprintf(&b, "--- %s\n%s", filepath.Base(name), text)
		}
	}
	return b.String()
}
