// Package southbound is the leading controller's share in the southbound database, of which ovn-northd writes all that is of pods.
//
//	record (held) + engine (complete) ──▶ Opener ──▶ nb_cfg, sb_cfg ──▶ record (not held)
//	Nodes + chassis                   ──▶ Sweeper ─▶ chassis deleted, Event
//	what nodes add to it              ──▶ Sweeper ─▶ rows deleted that nothing uses, metrics
//	what nodes claim                  ──▶ Claims ──▶ taken back at once, metrics
//	Nodes, reports + tunnel ends      ──▶ Claims ──▶ false chassis deleted, Event, metrics
//	what servers show                 ──▶ Certificates ─▶ metrics
//
// What must stay true:
//
//   - A southbound database that is held is opened to nodes only when all that the cluster asks for is in it.
//   - A chassis is deleted only when this process has seen for some time that its Node is gone, and has asked for the Node once
//     more right before; or when it has what is another node's, and the Nodes of both have had their addresses for some time.
package southbound
