// Package hostile attacks Atoll on a real cluster, in the roles that docs/security.md names: as a tenant who has the role edit in a
// namespace, from a pod with and without capabilities, and from a pod of the default Network.
//
// An attack says what is tried, and what the attacker has if it succeeds. It is tried three times: as the cluster is, where
// it has to fail; with the defence that holds it taken out, where it has to succeed, or else its failing showed nothing;
// and with the defence in its place again. See defence.holds. A defence is a row of OVN's, a rule of a node's, an admission
// policy or a right, by the name that docs/security.md calls it.
//
// All tests share one sandbox, with the cast (cast_test.go) in it: two Networks of the same addresses, and the default one,
// with attackers and victims. A test that takes a defence out harms what all share: it runs alone, never in parallel.
//
//	go test -tags e2e ./test/e2e/hostile -run Forged    needs root and bin/ (make build)
//
// Attacks that are a matter of packets alone are tried by cheaper tests, on both datapaths (go test -tags integration
// ./pkg/agent, make test-kernel); docs/design/testing.md names them.
package hostile
