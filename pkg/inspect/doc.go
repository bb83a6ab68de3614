// Package inspect answers questions about a running cluster. Each package below answers one kind: its functions return values of the API
// inspect.atoll.dev, or its own, and print nothing. An arrow says who imports whom:
//
//	atoll-inspect -> inspectapi                     who asks, whether they may, HTTP
//	atoll -> check, matrix -> client                asks the API with a user's own rights; check reads the databases, too
//	                |
//	                v
//	resources       the table of what is read by GET, which inspectapi serves and client asks for
//	                |
//	                v
//	status ipam topology flows explain trial verdicts policytrace      a package for each question
//	                |
//	                v
//	drift           what OVN has otherwise than the objects ask for
//	visibility      what the reader of an answer may know
//	policyrows      whose row decides, and what that means
//	connect         how a user reaches the API server and the databases
//	snapshot        the objects and rows that answers are made from
//	question        what users ask, and why there is no answer
//
// One more resource takes a package that finds its objects, a function in resources, and a row in inspectapi.Reads (test/adding).
//
// Package policytrial compares policies on values alone. Test clusters are in test/inspected.
//
// What must stay true: nothing is ever written, to no API server and to no database, and no epoch is taken. A question is a function of
// snapshot.Sources, so that atoll-inspect and, where it does not answer, the command line give the same answer.
package inspect
