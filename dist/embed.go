// Package dist holds the manifests by which Atoll is installed, as kustomizations. They are the one source: `kubectl apply -k` reads the
// directories, and `atoll install` what is embedded here.
package dist

import "embed"

// Files is the tree of kustomizations, as it is in the repository. The overlays of the sandbox are not in it.
//
//go:embed admission agent config controller crds default dns gateway inspect network-default ovn-central ovn-node overlays/ha overlays/single rbac
var Files embed.FS
