package v1alpha1

// Subnet is one subnet of a Network: a layer-2 domain with a gateway that leads to the Network's other subnets.
//
// +kubebuilder:validation:XValidation:rule="self.cidrs == oldSelf.cidrs",fieldPath=".cidrs",message="the cidrs of a subnet cannot change; add a subnet of another name"
// +kubebuilder:validation:XValidation:rule="has(self.gatewayIPs) == has(oldSelf.gatewayIPs) && (!has(self.gatewayIPs) || self.gatewayIPs == oldSelf.gatewayIPs)",fieldPath=".gatewayIPs",message="the gatewayIPs of a subnet cannot change; add a subnet of another name"
// +kubebuilder:validation:XValidation:rule="!has(self.gatewayIPs) || !self.cidrs.all(c, isCIDR(c)) || self.gatewayIPs.all(g, !isIP(g) || self.cidrs.exists(c, cidr(c).containsIP(g)))",fieldPath=".gatewayIPs",message="a gateway must lie in a range of its subnet"
type Subnet struct {
	// The name, unique in the Network: lower case letters, digits and dashes.
	//
	// +required
	// +kubebuilder:validation:MinLength=1
	// +kubebuilder:validation:MaxLength=63
	// +kubebuilder:validation:Pattern=`^[a-z0-9]([-a-z0-9]*[a-z0-9])?$`
	Name string `json:"name"`

	// One range, or one IPv4 and one IPv6 range, without host bits, for example 10.0.0.0/24 and fd00:10::/64. A pod
	// gets an address of each. IPv4 /8 to /30, IPv6 /64 to /126. They cannot change.
	//
	// +required
	// +listType=set
	// +kubebuilder:validation:MinItems=1
	// +kubebuilder:validation:MaxItems=2
	// +kubebuilder:validation:XValidation:rule="self.size() < 2 || !self.all(c, isCIDR(c)) || cidr(self[0]).ip().family() != cidr(self[1]).ip().family()",message="two ranges must be one IPv4 and one IPv6"
	CIDRs []CIDR `json:"cidrs"`

	// The router's addresses, inside the ranges: at most one per IP family. Default: the first address of each range.
	// They cannot change.
	//
	// +optional
	// +listType=set
	// +kubebuilder:validation:MinItems=1
	// +kubebuilder:validation:MaxItems=2
	// +kubebuilder:validation:XValidation:rule="self.size() < 2 || !self.all(g, isIP(g)) || ip(self[0]).family() != ip(self[1]).family()",message="two gateways must be one IPv4 and one IPv6"
	GatewayIPs []IP `json:"gatewayIPs,omitempty"`

	// Addresses that pods do not get, at most 64 entries: addresses (10.0.0.9), CIDRs (10.0.0.128/25) or ranges that
	// include both ends (10.0.0.2-10.0.0.8). A pod keeps the address that it has.
	//
	// +optional
	// +listType=set
	// +kubebuilder:validation:MaxItems=64
	ExcludeIPs []AddressRange `json:"excludeIPs,omitempty"`
}

// CIDR is an IP range in CIDR notation, with no bit set after the prefix.
//
// +kubebuilder:validation:MinLength=1
// +kubebuilder:validation:MaxLength=43
// +kubebuilder:validation:XValidation:rule="isCIDR(self)",message="must be a range in CIDR notation, for example 10.0.0.0/24 or fd00:10::/64"
// +kubebuilder:validation:XValidation:rule="!isCIDR(self) || cidr(self) == cidr(self).masked()",message="must begin with the first address of the range: 10.0.0.0/24, not 10.0.0.1/24"
// +kubebuilder:validation:XValidation:rule="!isCIDR(self) || (cidr(self).ip().family() == 4 ? (cidr(self).prefixLength() >= 8 && cidr(self).prefixLength() <= 30) : (cidr(self).prefixLength() >= 64 && cidr(self).prefixLength() <= 126))",message="must be /8 to /30 for IPv4 and /64 to /126 for IPv6"
// +kubebuilder:validation:XValidation:rule="!isCIDR(self) || cidr(self).ip().isGlobalUnicast()",message="must hold addresses that hosts can have: not unspecified, loopback, link-local or multicast"
type CIDR string

// IP is an IPv4 or IPv6 address.
//
// +kubebuilder:validation:MinLength=1
// +kubebuilder:validation:MaxLength=39
// +kubebuilder:validation:XValidation:rule="isIP(self)",message="must be an IP address, for example 10.0.0.1 or fd00:10::1"
type IP string

// AddressRange is an IP address, a CIDR, or the first and the last address of a range with a dash between.
//
// +kubebuilder:validation:MinLength=1
// +kubebuilder:validation:MaxLength=79
// +kubebuilder:validation:XValidation:rule="isIP(self) || isCIDR(self) || (self.contains('-') && isIP(self.substring(0, self.indexOf('-'))) && isIP(self.substring(self.indexOf('-') + 1)) && ip(self.substring(0, self.indexOf('-'))).family() == ip(self.substring(self.indexOf('-') + 1)).family())",message="must be an address, a CIDR or a range, for example 10.0.0.9, 10.0.0.128/25 or 10.0.0.2-10.0.0.8"
type AddressRange string
