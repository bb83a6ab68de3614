// Package policytrace follows a packet through the ACLs that the northbound database has, and says which policy's rule decides at each pod.
package policytrace
