// Package ovn groups the language of OVN's databases.
//
//	model --compile--> rows (nb) --graph--> work --plan--> operations --ovsdb--> a database
//	                    |
//	                    +--trace--> which ACL decides about a packet
//
// Only ovsdb talks to a server. All others are pure: the same values in, the same values out.
//
// It has no code of its own. Packages below it import each other, domain and process.
package ovn
