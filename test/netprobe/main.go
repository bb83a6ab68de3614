// Netprobe is what runs in the pods of the demo and of the end-to-end tests: a server that says who it is,
// and a prober that says who answered.
//
//	netprobe serve   answer TCP and UDP with this pod's identity; record the tokens of all that arrives
//	netprobe probe   read a JSON list of targets from stdin, probe all at once, print a JSON list of results
//	netprobe seen    print the tokens that arrived at this pod as a JSON list
//	netprobe own     print what a program of this pod sees of the pod's addresses
//	netprobe resolve look names up as any program of this pod does, and print what they are as a JSON list
//	netprobe dig     ask a DNS server one question, and print what it said
//	netprobe api     list the pods of this pod's namespace through the Kubernetes API, and print their names
//	netprobe load    ask a server again and again, and say how many answered, who, how fast, and what failed
//	netprobe ready   succeed when the server of this pod answers (for an exec probe)
//	netprobe forge   send ICMP echo requests with a source that is not this pod's
//	netprobe send    send frames, or datagrams, that somebody else has written
//	netprobe sniff   say which texts were in the frames that came to this pod
//
// It is one static binary and needs nothing but CAP_NET_RAW, which containers have by default; without it, `serve -icmp=false`.
package main

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"os"
	"os/signal"
	"syscall"
)

func main() {
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	defer stop()
	if err := run(ctx, os.Args[1:]); err != nil && !errors.Is(err, flag.ErrHelp) {
		fmt.Fprintln(os.Stderr, "netprobe:", err)
		stop()
		os.Exit(1)
	}
}

func run(ctx context.Context, args []string) error {
	commands := map[string]func(context.Context, []string) error{
		"serve":   runServe,
		"probe":   runProbe,
		"seen":    runSeen,
		"own":     runOwn,
		"resolve": runResolve,
		"dig":     runDig,
		"api":     runAPI,
		"load":    runLoad,
		"ready":   runReady,
		"forge":   runForge,
		"send":    runSend,
		"sniff":   runSniff,
	}
	if len(args) == 0 {
		return errors.New("want one of: serve, probe, seen, own, resolve, dig, api, load, ready, forge, send, sniff")
	}
	command, ok := commands[args[0]]
	if !ok {
		return fmt.Errorf("unknown command %q: want one of serve, probe, seen, own, resolve, dig, api, load, ready, forge, send, sniff", args[0])
	}
	return command(ctx, args[1:])
}
