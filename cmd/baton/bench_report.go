package main

import (
	"encoding/json"
	"fmt"
	"io"
	"math"
	"runtime"
	"slices"
	"time"
)

// benchFigure is one measurement beside its floor, as --json prints it.
type benchFigure struct {
	Bench  string  `json:"bench"`
	Case   string  `json:"case"`
	Value  float64 `json:"value"`
	Floor  float64 `json:"floor,omitempty"`
	Unit   string  `json:"unit"`
	Ratio  float64 `json:"ratio,omitempty"` // value over floor
	Wanted string  `json:"wanted,omitempty"`
	Met    *bool   `json:"met,omitempty"` // not told of a quick run
	Note   string  `json:"note,omitempty"`

	atLeast, atMost float64 // of the ratio, or of the value where there is no floor
}

// benchReport prints figures as they come: a table for people, an object each for programs.
type benchReport struct {
	out   io.Writer
	json  bool
	quick bool

	bench  string
	missed int
	err    error // of the output
}

func (r *benchReport) printf(format string, args ...any) {
	if r.err == nil {
		_, r.err = fmt.Fprintf(r.out, format, args...)
	}
}

func (r *benchReport) head(dir string) {
	if !r.json {
		r.printf("baton %s bench on %s/%s, %d CPUs; folder %s\n", version, runtime.GOOS, runtime.GOARCH, runtime.NumCPU(), dir)
	}
}

func (r *benchReport) begin(name, about string) {
	r.bench = name
	if !r.json {
		r.printf("\n%s: %s\n%-34s %14s %14s %8s  %s\n", name, about, "", "measured", "floor", "ratio", "wanted")
	}
}

// add reports a figure. wanted bounds its ratio: positive from below, negative from above, 0 not at all.
func (r *benchReport) add(f benchFigure) {
	f.Bench = r.bench
	measured := f.Value
	if f.Floor > 0 {
		f.Ratio = math.Round(f.Value/f.Floor*1000) / 1000
		measured = f.Ratio
	}
	f.Value, f.Floor = benchRound(f.Value), benchRound(f.Floor)
	met := true
	switch {
	case f.atLeast > 0:
		f.Wanted, met = fmt.Sprintf("at least %g", f.atLeast), measured >= f.atLeast
	case f.atMost > 0:
		f.Wanted, met = fmt.Sprintf("at most %g", f.atMost), measured <= f.atMost
	}
	if f.Wanted != "" && f.Floor > 0 {
		f.Wanted += "x"
	}
	if f.Wanted != "" && !r.quick {
		f.Met = &met
		if !met {
			r.missed++
		}
	}
	if r.json {
		b, err := json.Marshal(f)
		if err != nil {
			panic(err) // strings and finite numbers
		}
		r.printf("%s\n", b)
		return
	}
	floor, ratio, mark := "", "", ""
	if f.Floor > 0 {
		floor, ratio = fmt.Sprintf("%g %s", f.Floor, f.Unit), fmt.Sprintf("%.2fx", f.Ratio)
	}
	if f.Met != nil && !met {
		mark = "  MISSED"
	}
	note := ""
	if f.Note != "" {
		note = "  (" + f.Note + ")"
	}
	r.printf("  %-32s %14s %14s %8s  %s%s%s\n", f.Case, fmt.Sprintf("%g %s", f.Value, f.Unit), floor, ratio, f.Wanted, mark, note)
}

// remark tells people something beside the figures.
func (r *benchReport) remark(text string) {
	if !r.json {
		r.printf("  %s\n", text)
	}
}

func (r *benchReport) end() error {
	if !r.json && r.missed > 0 {
		r.printf("\n%d figures miss what is wanted\n", r.missed)
	}
	return r.err
}

// benchRound keeps three digits.
func benchRound(v float64) float64 {
	if v == 0 || math.IsInf(v, 0) || math.IsNaN(v) {
		return 0
	}
	scale := math.Pow(10, 2-math.Floor(math.Log10(math.Abs(v))))
	return math.Round(v*scale) / scale
}

// median and percentile reorder the values.
func median(values []float64) float64 { return percentile(values, 50) }

func percentile(values []float64, p int) float64 {
	if len(values) == 0 {
		return 0
	}
	slices.Sort(values)
	return values[min(len(values)-1, len(values)*p/100)]
}

func milliseconds(d time.Duration) float64 { return float64(d) / float64(time.Millisecond) }
