// Package bridge is the process that owns one agent, and its protocol to the host.
//
// A bridge outlives the host. It numbers what it says (out frames), keeps every frame until the host has journalled and
// acknowledged it, and stops reading the agent when its buffer is full: nothing is ever dropped. What the host says (in
// frames) carries numbers too, so that after a crash of the host either side knows what was delivered: the hello names
// the last input that was received, and every input ends as written, refused (no byte left) or broken (bytes may have
// left). An input number is acted upon once, whatever is repeated. An event that no host could read, because it cannot be
// encoded or is longer than MaxFrame, is replaced by an error event in its place.
//
// Where sandbox gives a pid namespace the bridge is its process 1, so that its end is the end of every process of the
// session. Its promises end with its own life: what was not acknowledged when it is killed is lost, and the host marks
// that as a gap. When it ends by itself without a host it first syncs its unacknowledged frames into the spill file that
// the host opened for it at launch.
package bridge
