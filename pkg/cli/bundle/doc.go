// Package bundle collects what a report of a problem needs into one archive, with secrets removed.
//
//	API server --objects, Events, logs--\
//	inspect.atoll.dev --answers---------- > clean > files --> .tar.gz, with manifest.json
//	OVN's databases --rows--------------/
//
// It works with whatever rights the user has. What the user may not read is missing, and the manifest says so with the reason.
//
// What must stay true: nothing gets into the archive that has not been through clean; Secrets and ConfigMaps are never read;
// nothing is written to the cluster; each file is bounded, and the manifest says where one was cut.
package bundle
