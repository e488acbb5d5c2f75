// Package sandbox starts the bridge of a session, holds everything that descends from it, ends it, and says truthfully
// what is left.
//
// The host side is Probe, Start, Open and Settle; the bridge side is Enter, Reaper and Child. Both run from one binary:
// Start executes the running program again with a hidden sub-command, whose first act is Enter.
//
// How a session is held is its Rung, chosen at launch, recorded, and never raised later:
//
//   - pid_namespace: the bridge is process 1 of its own user, pid, mount and ipc namespace. The kernel ends every
//     process of the namespace before it lets the end of process 1 be seen, so a readable pidfd of the bridge, or its
//     recorded identity being gone, proves that nothing of the session runs. The proof needs no parenthood and survives
//     crashes of host and bridge.
//   - subreaper: whatever descends from the bridge comes to it when it loses its parent, so that a bridge that has no
//     child left has no descendant. While it lives it can end everything and know it; it says so in its process name, which
//     the kernel lets nobody else write, and its host reads that before it kills it. Once a bridge was killed before that,
//     nothing is confirmed: what carries the marker is killed by pidfd, but a process can shed its environment. An agent
//     has the bridge's user, so it can kill it and cost the session its proof; it cannot make one.
//   - process_group: the bridge is an ordinary process. What it left behind is searched by ancestry and by a marker in
//     the environment and killed, but a process can shed both, so nothing is ever confirmed.
//
// On every rung a changed boot id is a proof (reboot), and so is a record without a process (never_started).
//
// "Confirmed" means that no process that descends from the launch exists on this host. Work that was handed to other
// programs (a container engine, systemd-run, cron, a terminal multiplexer that ran before) is not part of it.
//
// Where there is a mount namespace the package hides the directories of Launch.Mask and enforces Launch.Filesystem, which
// package policy makes; on macOS a profile of Seatbelt does both where a Filesystem is given, and less (see profile). It
// promises nothing about the network.
package sandbox
