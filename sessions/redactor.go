package sessions

// Redactor takes the secrets out of a text; what stands before the text is looked at with it, and not given. A text is
// redacted before it is cut: nobody would know the part of a secret that a cut leaves. nil: there are no secrets.
type Redactor func(before, text string) string

// Redact takes the secrets out of a whole text.
func (r Redactor) Redact(text string) string { return r.After("", text) }

// After takes the secrets out of the end of a text, whose beginning is before.
func (r Redactor) After(before, text string) string {
	if r == nil {
		return text
	}
	return r(before, text)
}
