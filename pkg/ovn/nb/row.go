package nb

import "github.com/google/uuid"

// Table is a table of a database; the zero Table is none. It is a number, so that a Ref says in which database its row is and
// is no larger for it: a table of another database is another number.
type Table uint16

// Columns that are written element by element.
const (
	ColumnPorts              = "ports"
	ColumnStaticRoutes       = "static_routes"
	ColumnPolicies           = "policies"
	ColumnLoadBalancers      = "load_balancer"
	ColumnLoadBalancerGroups = "load_balancer_group"
	ColumnACLs               = "acls"
	// ColumnAddresses holds addresses, which are no rows.
	ColumnAddresses = "addresses"
	// ColumnVips is a map, whose pairs are elements: see Pair.
	ColumnVips = "vips"
	// ColumnVariables is a map, too.
	ColumnVariables = "variables"
)

// Keys of external_ids.
const (
	// KeyOwner names the object that a row was made for, as Owner. A row without it is not ours.
	KeyOwner = "atoll.dev/owner"
	// KeyUID is the UID of that object.
	KeyUID = "atoll.dev/uid"
	// KeyNetwork is the Network that the row belongs to.
	KeyNetwork = "atoll.dev/network"
	// KeySelector on a port group says which pods are in it.
	KeySelector = "atoll.dev/selector"
	// KeyEpoch on the NB_Global row names the term of the controller that may write.
	KeyEpoch = "atoll.dev/epoch"
	// KeyInvalidBefore on the NB_Global row is the value that OptionInvalid had before it was ours; none when it had none.
	KeyInvalidBefore = "atoll.dev/use_ct_inv_match-before"
)

// OptionInvalid is the option of the NB_Global row by which OVN drops, wherever an ACL of a switch allows something, what
// connection tracking takes for no part of a connection. It is false here. (ovn-nb(5), NB_Global, use_ct_inv_match.)
//
// What pods of the default Network send to nodes, to the Kubernetes API and outside leaves by their node's porthole, and its answers
// come by the node's own port in the Network, where connection tracking has not seen the question: of TCP these are invalid
// there. What is invalid matches nothing that an ACL allows, and so pods that are isolated do not get it either way.
const OptionInvalid = "use_ct_inv_match"

// OptionTemplate is the option of a load balancer in whose virtual addresses variables stand; TemplateMark stands before the name
// of each. (ovn-nb(5), Load_Balancer, Chassis_Template_Var.)
const (
	OptionTemplate = "template"
	TemplateMark   = "^"
)

// InvalidUnmatched is the value of OptionInvalid.
const InvalidUnmatched = "false"

// OptionVXLAN is the option of the NB_Global row by which OVN goes into VXLAN mode when any chassis says that it takes VXLAN: then there
// is room for 4,095 switches and
// routers, and for 2,047 ports in each. OptionOff is its value where no node may have it do so. (ovn-nb(5), NB_Global, vxlan_mode; OVN
// 24.09 and newer.)
const (
	OptionVXLAN = "vxlan_mode"
	OptionOff   = "false"
)

// InvalidBefore is the value of OptionInvalid that is not ours and is to be put back one day: of a database that was never in an
// epoch of ours any, later any but ours. Empty for none.
func InvalidBefore(g *Global) string {
	value := g.Options[OptionInvalid]
	if value == InvalidUnmatched && g.ExternalIDs[KeyEpoch] != "" {
		return ""
	}
	return value
}

// Row is one row of a table: a pointer to one of this package's structs.
type Row interface {
	Table() Table
	// ID is the row's UUID.
	ID() string
	// Owned is the row's external_ids.
	Owned() map[string]string
}

// Ref points at a row of its Table's database.
type Ref struct {
	Table Table
	UUID  string
}

// RefOf points at r.
func RefOf(r Row) Ref { return Ref{r.Table(), r.ID()} }

// Holds says that a column of the row holds a value.
func (r Ref) Holds(column, value string) Member { return Member{Set{r, column}, value} }

// space is the namespace of our row UUIDs: the UUIDv5 of our API group in the DNS namespace of RFC 9562.
var space = uuid.NewSHA1(uuid.NameSpaceDNS, []byte("atoll.dev"))

// UUID is the UUID of the row of a table that is known by key. The same key always gives the same UUID, so a
// reference to a row is a plain value and needs no look-up. (UUIDv5, RFC 9562.)
func UUID(table Table, key string) string {
	return uuid.NewSHA1(space, []byte(table.String()+"\x00"+key)).String()
}
