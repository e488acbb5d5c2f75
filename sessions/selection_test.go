package sessions

import (
	"reflect"
	"testing"
)

// I-06: what was asked is confirmed word for word, and missing evidence confirms nothing.
func TestI06_MissingEvidenceConfirmsNothing(t *testing.T) {
	all := Selection{Model: "m", Effort: "e", Mode: "plan", Sandbox: SandboxReadOnly, ApprovalPolicy: ApprovalNever}
	if d := all.Unconfirmed(Evidence{Model: "m", Effort: "e", Mode: "plan", Sandbox: SandboxReadOnly, ApprovalPolicy: ApprovalNever}); d != nil {
		t.Errorf("all confirmed, but %v", d)
	}
	if d := all.Unconfirmed(Evidence{}); len(d) != 5 {
		t.Errorf("no evidence, and %v", d)
	}
	if d := (Selection{}).Unconfirmed(Evidence{Model: "x"}); d != nil {
		t.Errorf("nothing asked, and %v", d)
	}
	d := all.Unconfirmed(Evidence{Model: "M", Effort: "e", Mode: "plan", Sandbox: SandboxReadOnly, ApprovalPolicy: ApprovalNever})
	if want := []Difference{{"model", "m", "M"}}; !reflect.DeepEqual(d, want) {
		t.Errorf("got %v, want %v", d, want)
	}
	if UnconfirmedError(nil) != nil {
		t.Error("no difference is an error")
	}
	e := AsError(UnconfirmedError(d))
	if e.Code != CodeSelectionUnconfirmed || e.Action == "" || !reflect.DeepEqual(e.Details["differences"], d) {
		t.Errorf("%+v", e)
	}
}
