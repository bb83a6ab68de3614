package porthole

import (
	"bytes"
	"slices"
	"testing"

	"github.com/google/nftables"
	"github.com/google/nftables/expr"
	"github.com/mdlayher/netlink"
	"golang.org/x/sys/unix"
)

// TestEachExpressionIsRead: the library reads each rule of ours as it was written. It leaves out expressions and attributes that
// it does not know, without an error: a check of the node would not see them.
func TestEachExpressionIsRead(t *testing.T) {
	t.Parallel()
	consumer, alone, flat := testSpec("u1"), testSpec("u1"), testHost()
	consumer.Consumer, consumer.Provider = true, true
	alone.Cluster.Servers, alone.DNS = alone.Cluster.Servers[:1], nil
	flat.Direct, flat.Compatible = nil, nil
	for name, written := range map[string]*transaction{
		"porthole": portholeRules(testSpec("u1").normal(), nothing), "consumer and provider": portholeRules(consumer.normal(), nothing),
		"one server": portholeRules(alone.normal(), nothing), "node": hostRules(testHost().normal()), "flat": hostRules(flat.normal()),
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			rules := rulesOf(written)
			if len(rules) == 0 || written.err != nil {
				t.Fatalf("%d rules, error %v", len(rules), written.err)
			}
			for i, rule := range rules {
				if is, read := expressionsOf(t, rule), readBack(t, rule); !bytes.Equal(is, read) {
					t.Errorf("rule %d, of chain %s, is read otherwise:\n%x\n%x", i, rule.chain, is, read)
				}
			}
		})
	}
	// The control.
	unknown := &transaction{}
	unknown.rule("forward", words{&expr.Socket{Key: expr.SocketKeyMark, Register: first}}, accept())
	if rule := rulesOf(unknown)[0]; bytes.Equal(expressionsOf(t, rule), readBack(t, rule)) {
		t.Error("what the library does not know is found to be read")
	}
}

func rulesOf(of *transaction) []statement {
	return slices.DeleteFunc(slices.Clone(of.statements), func(s statement) bool {
		return s.Header.Type != unix.NFNL_SUBSYS_NFTABLES<<8|unix.NFT_MSG_NEWRULE
	})
}

// expressionsOf are a rule's, as they are written.
func expressionsOf(t *testing.T, rule statement) (out []byte) {
	t.Helper()
	const header = 4 // struct nfgenmsg
	d, err := netlink.NewAttributeDecoder(rule.Data[header:])
	if err != nil {
		t.Fatal(err)
	}
	for d.Next() {
		if d.Type() == unix.NFTA_RULE_EXPRESSIONS {
			out = d.Bytes()
		}
	}
	if err := d.Err(); err != nil || len(out) == 0 {
		t.Fatalf("%d bytes, error %v", len(out), err)
	}
	return out
}

// readBack are a rule's expressions as the library reads them, written again.
func readBack(t *testing.T, rule statement) []byte {
	t.Helper()
	conn, err := nftables.New(
		nftables.WithTestDial(func([]netlink.Message) ([]netlink.Message, error) { return []netlink.Message{rule.Message}, nil }))
	if err != nil {
		t.Fatal(err)
	}
	table := &nftables.Table{Name: tableName, Family: nftables.TableFamilyINet}
	read, err := conn.GetRules(table, &nftables.Chain{Table: table, Name: rule.chain})
	if err != nil || len(read) != 1 {
		t.Fatalf("%d rules, error %v", len(read), err)
	}
	e := netlink.NewAttributeEncoder()
	for _, expression := range read[0].Exprs {
		encoded, err := expr.Marshal(unix.NFPROTO_INET, expression)
		if err != nil {
			t.Fatal(err)
		}
		e.Bytes(unix.NLA_F_NESTED|unix.NFTA_LIST_ELEM, encoded)
	}
	out, err := e.Encode()
	if err != nil {
		t.Fatal(err)
	}
	return out
}
