package wire

// receive reads until the link ends.
func (c *Conn) receive() {
	defer close(c.read)
	for {
		line, err := c.lines.next()
		if err != nil {
			c.end(err)
			c.queue.set(func(q *queue) { q.ended = true })
			return
		}
		c.tap(FromAgent, line)
		if line = trim(line); len(line) > 0 {
			c.accept(line)
		}
	}
}

// accept sorts one line: a message goes to the queue, anything else is counted.
func (c *Conn) accept(line []byte) {
	e, ok := parseEnvelope(line)
	if !ok {
		c.diag.add(func(d *Diagnostics) { d.Noise++ }, line)
		return
	}
	answers := e.result != nil || e.err != nil
	isMethod := e.method != nil && !isNull(e.method)
	if e.id != nil && (answers || !isMethod) {
		if call := c.answered(text(e.id)); call != nil {
			c.queue.put(response(call, e, line))
			return
		}
	}
	switch {
	case isMethod && e.id != nil:
		c.queue.put(c.request(e))
	case isMethod && e.method[0] == '"':
		c.queue.put(Message{Kind: Notification, Method: c.intern(e.method), Params: e.params})
	case e.err != nil && (e.id == nil || isNull(e.id)):
		c.diag.add(func(d *Diagnostics) { d.Unnamed++ }, line)
	case answers && e.id != nil:
		c.diag.add(func(d *Diagnostics) { d.Unmatched++ }, line)
	default:
		c.diag.add(func(d *Diagnostics) { d.Malformed++ }, line)
	}
}

// answered takes the open call with this id, whatever JSON type the agent made of it.
func (c *Conn) answered(id string) *Call {
	c.mu.Lock()
	defer c.mu.Unlock()
	call := c.pending[id]
	delete(c.pending, id)
	return call
}

func response(call *Call, e envelope, line []byte) Message {
	m := Message{Kind: Response, Method: call.method, Call: call}
	switch {
	case e.err != nil && !isNull(e.err):
		m.Err = parseError(e.err)
	case e.result != nil:
		m.Result = e.result
	default:
		m.Err = &ResponseError{Code: CodeInternalError, Message: "the response has neither result nor error", Data: line}
	}
	return m
}

// request numbers the requests of the agent, which may give the same id to two of them.
func (c *Conn) request(e envelope) Message {
	c.requests++
	m := Message{Kind: Request, Params: e.params, ID: ID{n: c.requests, raw: string(e.id)}}
	if e.method[0] == '"' {
		m.Method = c.intern(e.method)
	}
	return m
}

// intern spares an allocation a message: agents send few methods, many times.
func (c *Conn) intern(raw []byte) string {
	if s, ok := c.methods[string(raw)]; ok {
		return s
	}
	s := text(raw)
	if len(c.methods) < 256 && len(raw) < 128 {
		c.methods[string(raw)] = s
	}
	return s
}
