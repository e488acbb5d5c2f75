//go:build nokill

package sandbox

// spared lets live what is to be killed, and takes it for dead: whoever claims anything then claims it falsely. The
// hostile processes must be found by their witness:
//
//	go test -tags nokill -run TestI10_StoppedMeansProven ./sandbox
const spared = true
