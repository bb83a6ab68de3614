package main

import (
	"context"
	"encoding/json"
	"errors"
	"flag"
	"fmt"
	"net"
	"os"
	"strings"

	"github.com/miekg/dns"

	"github.com/atoll-net/atoll/test/netprobe/wire"
)

// resolverFile is where the kubelet tells a pod whom to ask for names.
const resolverFile = "/etc/resolv.conf"

// runDig asks a DNS server one question and prints what it said, word for word: unlike resolve it uses no search path,
// tries once, and tells a denial from a refusal.
func runDig(ctx context.Context, args []string) error {
	flags := flag.NewFlagSet("dig", flag.ContinueOnError)
	tcp := flags.Bool("tcp", false, "ask by TCP")
	server := flags.String("server", "", "address of the server (default: the pod's own)")
	patience := flags.Duration("for", reachPatience, "how long to wait for the answer")
	if err := flags.Parse(args); err != nil {
		return err
	}
	if flags.NArg() != 2 {
		return errors.New("want a type and a name")
	}
	kind, known := dns.StringToType[flags.Arg(0)]
	if !known {
		return fmt.Errorf("%q is no type of record", flags.Arg(0))
	}
	if *server == "" {
		config, err := dns.ClientConfigFromFile(resolverFile)
		if err != nil || len(config.Servers) == 0 {
			return fmt.Errorf("read servers of %s: %w", resolverFile, err)
		}
		*server = config.Servers[0]
	}
	question := new(dns.Msg)
	question.SetQuestion(dns.Fqdn(flags.Arg(1)), kind)
	client := dns.Client{Net: "udp", Timeout: *patience}
	if *tcp {
		client.Net = "tcp"
	}
	said := wire.Said{Records: []string{}}
	reply, _, err := client.ExchangeContext(ctx, question, net.JoinHostPort(*server, "53"))
	if err != nil {
		said.Error = err.Error()
	} else {
		said.Status, said.Truncated = dns.RcodeToString[reply.Rcode], reply.Truncated
		for _, record := range reply.Answer {
			// Without name, class and TTL.
			said.Records = append(said.Records, strings.TrimPrefix(record.String(), record.Header().String()))
		}
	}
	return json.NewEncoder(os.Stdout).Encode(said)
}
