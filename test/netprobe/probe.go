package main

import (
	"bufio"
	"context"
	"encoding/json"
	"errors"
	"flag"
	"fmt"
	"net"
	"os"
	"sync"
	"time"

	"github.com/atoll-net/atoll/test/netprobe/wire"
)

const (
	// tryEvery is how long one try waits before the next is sent: the first packet to a new tunnel peer,
	// or of a flow that OVS has not seen, can be lost.
	tryEvery = 300 * time.Millisecond
	// tryTCP is how long the first connection may take. The kernel repeats a lost SYN after 1 s; a new
	// connection after this is quicker. Each further one may take twice as long, for who is slow and not silent.
	tryTCP = 700 * time.Millisecond
)

// runProbe probes what stdin names and prints what came of it.
func runProbe(ctx context.Context, args []string) error {
	flags := flag.NewFlagSet("probe", flag.ContinueOnError)
	patience := flags.Duration("for", 3*time.Second, "how long to go on trying what does not answer")
	if err := flags.Parse(args); err != nil {
		return err
	}
	var targets []wire.Target
	if err := json.NewDecoder(os.Stdin).Decode(&targets); err != nil {
		return fmt.Errorf("read targets: %w", err)
	}
	ctx, cancel := context.WithTimeout(ctx, *patience)
	defer cancel()
	results, err := probeAll(ctx, targets)
	if err != nil {
		return err
	}
	return json.NewEncoder(os.Stdout).Encode(results)
}

// probeAll probes all targets at once until each has answered or ctx has ended. Results are in the order of
// targets.
func probeAll(ctx context.Context, targets []wire.Target) ([]wire.Result, error) {
	var need4, need6 bool
	for _, t := range targets {
		if err := t.Validate(); err != nil {
			return nil, err
		}
		if t.Protocol == wire.ICMP {
			need4 = need4 || t.Address.Is4()
			need6 = need6 || t.Address.Is6()
		}
	}
	var receivers sync.WaitGroup
	defer receivers.Wait()
	pingers := map[bool]*pinger{}
	for v6, needed := range map[bool]bool{false: need4, true: need6} {
		if !needed {
			continue
		}
		p, err := newPinger(v6)
		if err != nil {
			return nil, err
		}
		defer p.conn.Close()
		receivers.Go(p.receive)
		pingers[v6] = p
	}
	results := make([]wire.Result, len(targets))
	var probes sync.WaitGroup
	for i, t := range targets {
		probes.Go(func() {
			switch t.Protocol {
			case wire.ICMP:
				results[i] = pingers[t.Address.Is6()].probe(ctx, t)
			case wire.TCP:
				results[i] = probeTCP(ctx, t)
			case wire.UDP:
				results[i] = probeUDP(ctx, t)
			}
		})
	}
	probes.Wait()
	return results, nil
}

// probeTCP connects until somebody answers with the token or ctx ends.
func probeTCP(ctx context.Context, t wire.Target) wire.Result {
	result := wire.Result{Token: t.Token}
	tick := time.NewTicker(tryEvery)
	defer tick.Stop()
	for within := tryTCP; ; within *= 2 {
		result.Tries++
		started := time.Now()
		answer, connected, err := askTCP(ctx, t, within)
		result.Connected = result.Connected || connected
		if err == nil {
			result.Answered, result.Answerer, result.RTT, result.Error = true, answer.Answerer, time.Since(started), ""
			return result
		}
		// What the end of ctx does to a connection says nothing about the network.
		if !isOver(ctx) || result.Error == "" {
			result.Error = err.Error()
		}
		select {
		case <-ctx.Done():
			return result
		case <-tick.C:
		}
	}
}

// isOver reports whether the time of ctx is over, which a dialer can know before ctx does.
func isOver(ctx context.Context) bool {
	deadline, limited := ctx.Deadline()
	return ctx.Err() != nil || limited && !time.Now().Before(deadline)
}

func askTCP(ctx context.Context, t wire.Target, within time.Duration) (answer wire.Answer, connected bool, err error) {
	ctx, cancel := context.WithTimeout(ctx, within)
	defer cancel()
	var dialer net.Dialer
	conn, err := dialer.DialContext(ctx, "tcp", t.AddrPort().String())
	if err != nil {
		return wire.Answer{}, false, err
	}
	defer conn.Close()
	if deadline, ok := ctx.Deadline(); ok {
		_ = conn.SetDeadline(deadline)
	}
	if _, err := fmt.Fprintf(conn, "%s\n", t.Token); err != nil {
		return wire.Answer{}, true, err
	}
	line, err := bufio.NewReader(conn).ReadBytes('\n')
	if err != nil {
		return wire.Answer{}, true, err
	}
	answer, err = parseAnswer(line, t.Token)
	return answer, true, err
}

// probeUDP sends the token until somebody answers with it or ctx ends.
func probeUDP(ctx context.Context, t wire.Target) wire.Result {
	result := wire.Result{Token: t.Token}
	conn, err := net.Dial("udp", t.AddrPort().String())
	if err != nil {
		result.Error = err.Error()
		return result
	}
	defer conn.Close()
	buf := make([]byte, 1500)
	tick := time.NewTicker(tryEvery)
	defer tick.Stop()
	for {
		result.Tries++
		sent := time.Now()
		_ = conn.SetDeadline(sent.Add(tryEvery))
		if _, err := conn.Write([]byte(t.Token)); err != nil {
			result.Error = err.Error()
		}
		for {
			n, err := conn.Read(buf)
			if errors.Is(err, os.ErrDeadlineExceeded) {
				break
			}
			if err != nil {
				// Refused, or not for this probe: the answer may still come.
				result.Error = err.Error()
				continue
			}
			answer, err := parseAnswer(buf[:n], t.Token)
			if err != nil {
				result.Error = err.Error()
				continue
			}
			result.Answered, result.Answerer, result.RTT, result.Error = true, answer.Answerer, time.Since(sent), ""
			return result
		}
		select {
		case <-ctx.Done():
			return result
		case <-tick.C:
		}
	}
}

// parseAnswer reads an Answer and checks that it answers token.
func parseAnswer(data []byte, token string) (wire.Answer, error) {
	var answer wire.Answer
	if err := json.Unmarshal(data, &answer); err != nil {
		return wire.Answer{}, fmt.Errorf("read an answer: %w", err)
	}
	if answer.Token != token {
		return wire.Answer{}, fmt.Errorf("answer to %q, not to %q", answer.Token, token)
	}
	return answer, nil
}
