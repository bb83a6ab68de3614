package main

import (
	"context"
	"encoding/json"
	"errors"
	"flag"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/http/httptrace"
	"net/netip"
	"os"
	"slices"
	"sync"
	"sync/atomic"
	"time"

	"github.com/atoll-net/atoll/test/netprobe/wire"
)

// runLoad asks a server again and again, and says what came of it: how many answers, from whom, how fast, and what failed.
func runLoad(ctx context.Context, args []string) error {
	flags := flag.NewFlagSet("load", flag.ContinueOnError)
	var at netip.AddrPort
	flags.TextVar(&at, "at", netip.AddrPort{}, "address and port of the server")
	how := flags.String("by", string(wire.LoadTCP),
		"tcp: a connection for each question; http: one connection for all; udp: one socket for all; dns, dns-tcp: a DNS question each")
	workers := flags.Int("workers", 1, "how many ask at once")
	pause := flags.Duration("pause", 0, "between an answer and the next question; the workers begin one after another within as long")
	duration := flags.Duration("for", time.Second, "how long at most")
	untilEOF := flags.Bool("until-eof", false, "end when stdin does, if that is earlier")
	if err := flags.Parse(args); err != nil {
		return err
	}
	ask, known := map[wire.LoadBy]func(netip.AddrPort) asker{
		wire.LoadTCP: newTCP, wire.LoadHTTP: newHTTP, wire.LoadUDP: newUDP,
		wire.LoadDNS: newDNS("udp"), wire.LoadDNSTCP: newDNS("tcp"),
	}[wire.LoadBy(*how)]
	if !known || !at.IsValid() || *workers < 1 {
		return errors.New("want -at ADDRESS:PORT -by tcp, http, udp, dns or dns-tcp, and at least one worker")
	}
	ctx, cancel := context.WithTimeout(ctx, *duration)
	defer cancel()
	if *untilEOF {
		go func() {
			_, _ = io.Copy(io.Discard, os.Stdin)
			cancel()
		}()
	}
	load := loadAll(ctx, *workers, *pause, func() asker { return ask(at) })
	return json.NewEncoder(os.Stdout).Encode(load)
}

// asker asks one question after the other. made says that it took a new connection.
type asker interface {
	ask(token string) (by wire.Identity, made bool, err error)
	io.Closer
}

// lateAsker does not wait long for an answer, and can tell one that comes late from one that is lost.
type lateAsker interface {
	asker
	// late are the tokens of questions that have been answered after they were given up. It waits for what is owed.
	late() []string
}

// loadAll asks until ctx ends.
func loadAll(ctx context.Context, workers int, pause time.Duration, newAsker func() asker) wire.Load {
	started := time.Now()
	sum := wire.Load{ByServer: map[string]int{}, Spans: map[string]wire.Span{}, Errors: map[string]int{}}
	var took []time.Duration
	var failures []failed
	var mu sync.Mutex
	var all sync.WaitGroup
	for worker := range workers {
		all.Go(func() {
			a := newAsker()
			defer a.Close()
			// They begin one after another, not all in one moment: what is measured is a load that goes on, not its start.
			wait(ctx, pause*time.Duration(worker)/time.Duration(workers))
			for i := 0; ctx.Err() == nil; i++ {
				token, began := fmt.Sprintf("load-%d-%d", worker, i), time.Now()
				by, made, err := a.ask(token)
				passed := time.Since(began)
				mu.Lock()
				took = append(took, passed)
				if passed > sum.Max {
					sum.Max, sum.MaxAsked = passed, began
				}
				if made {
					sum.Connections++
				}
				if err != nil {
					failures = append(failures, failed{token, wire.Failure{Asked: began, Took: passed, Error: err.Error()}})
				} else {
					sum.ByServer[by.UID]++
					sum.Spans[by.UID] = widened(sum.Spans[by.UID], began)
					sum.Answers++
					if passed >= wire.Retransmission {
						sum.Waited++
					}
				}
				mu.Unlock()
				wait(ctx, pause)
			}
			asked := time.Since(started).Seconds()
			if a, kept := a.(*httpAsker); kept {
				mu.Lock()
				sum.Renewed = append(sum.Renewed, a.renewed...)
				mu.Unlock()
			}
			var late []string
			if a, can := a.(lateAsker); can {
				late = a.late()
			}
			mu.Lock()
			defer mu.Unlock()
			sum.Seconds = max(sum.Seconds, asked)
			sum.Late += len(late)
			failures = slices.DeleteFunc(failures, func(f failed) bool { return slices.Contains(late, f.token) })
		})
	}
	all.Wait()
	for _, f := range failures {
		note(&sum, f.Failure)
	}
	slices.Sort(took)
	// Who is ended at once has asked nothing.
	if len(took) > 0 {
		sum.P50, sum.P99 = took[len(took)/2], took[len(took)*99/100]
	}
	return sum
}

// wait waits as long as it says, or until ctx ends.
func wait(ctx context.Context, pause time.Duration) {
	if pause <= 0 {
		return
	}
	select {
	case <-ctx.Done():
	case <-time.After(pause):
	}
}

// failed is a question without an answer so far.
type failed struct {
	token string
	wire.Failure
}

// note counts what failed.
func note(sum *wire.Load, f wire.Failure) {
	sum.Errors[f.Error]++
	if len(sum.Failures) < wire.MaxFailures {
		sum.Failures = append(sum.Failures, f)
	}
}

// widened is a span that holds another moment, too.
func widened(s wire.Span, at time.Time) wire.Span {
	if s.First.IsZero() || at.Before(s.First) {
		s.First = at
	}
	if at.After(s.Last) {
		s.Last = at
	}
	return s
}

// loadPatience bounds one question; a client of a Service waits no longer.
const loadPatience = 5 * time.Second

type tcpAsker struct{ server netip.AddrPort }

func newTCP(at netip.AddrPort) asker { return tcpAsker{at} }

func (a tcpAsker) ask(token string) (wire.Identity, bool, error) {
	conn, err := net.DialTimeout("tcp", a.server.String(), loadPatience)
	if err != nil {
		return wire.Identity{}, true, withoutAddresses(err)
	}
	defer conn.Close()
	if err := conn.SetDeadline(time.Now().Add(loadPatience)); err != nil {
		return wire.Identity{}, true, err
	}
	if _, err := fmt.Fprintf(conn, "%s\n", token); err != nil {
		return wire.Identity{}, true, withoutAddresses(err)
	}
	line, err := io.ReadAll(conn)
	if err != nil {
		return wire.Identity{}, true, withoutAddresses(err)
	}
	answer, err := parseAnswer(line, token)
	return answer.Answerer, true, err
}

func (tcpAsker) Close() error { return nil }

type httpAsker struct {
	url    string
	client *http.Client
	// kept: the connection of the last question was put aside for the next. When it was not, it is the client that gave it up: Go's
	// does so when it is late to see that it has written a question which is answered already (net/http,
	// maxWriteWaitBeforeConnReuse).
	kept atomic.Bool
	// renewed are questions for which a connection was made anew although one was kept.
	renewed []wire.Failure
}

func newHTTP(at netip.AddrPort) asker {
	return &httpAsker{
		url: "http://" + at.String() + wire.ReadyPath, client: &http.Client{
			Transport: &http.Transport{MaxConnsPerHost: 1}, Timeout: loadPatience,
		},
	}
}

func (a *httpAsker) ask(string) (by wire.Identity, made bool, err error) {
	why := "it was closed between two questions"
	trace := &httptrace.ClientTrace{
		GotConn: func(c httptrace.GotConnInfo) {
			made = !c.Reused
			if c.Reused {
				why = "a question on it failed, and was asked again"
			}
		},
		PutIdleConn: func(err error) { a.kept.Store(err == nil) },
	}
	request, err := http.NewRequestWithContext(httptrace.WithClientTrace(context.Background(), trace), http.MethodGet, a.url, nil)
	if err != nil {
		return by, made, err
	}
	began, kept := time.Now(), a.kept.Swap(false)
	response, err := a.client.Do(request)
	if made && kept {
		a.renewed = append(a.renewed, wire.Failure{Asked: began, Took: time.Since(began), Error: why})
	}
	if err != nil {
		return by, made, withoutAddresses(err)
	}
	defer response.Body.Close()
	var ready wire.Ready
	text, err := io.ReadAll(response.Body)
	if err == nil {
		err = json.Unmarshal(text, &ready)
	}
	return ready.Identity, made, withoutAddresses(err)
}

func (a *httpAsker) Close() error {
	a.client.CloseIdleConnections()
	return nil
}

// tryUDP is how long one question by UDP waits for its answer before the next is asked.
const tryUDP = 700 * time.Millisecond

type udpAsker struct {
	server netip.AddrPort
	conn   net.Conn
	// owed are questions that were given up, and paid those of them that were answered all the same.
	owed map[string]bool
	paid []string
}

func newUDP(at netip.AddrPort) asker { return &udpAsker{server: at, owed: map[string]bool{}} }

// ask sends one packet: one without an answer is an error.
func (a *udpAsker) ask(token string) (wire.Identity, bool, error) {
	made := a.conn == nil
	if made {
		conn, err := net.Dial("udp", a.server.String())
		if err != nil {
			return wire.Identity{}, true, err
		}
		a.conn = conn
	}
	if _, err := a.conn.Write([]byte(token)); err != nil {
		return wire.Identity{}, made, withoutAddresses(err)
	}
	by, err := a.await(token, tryUDP)
	if errors.Is(err, os.ErrDeadlineExceeded) {
		a.owed[token] = true
	}
	return by, made, withoutAddresses(err)
}

// await reads until the answer to a question comes, and notes those that come late. With the empty token it waits for these.
func (a *udpAsker) await(token string, patience time.Duration) (wire.Identity, error) {
	if err := a.conn.SetReadDeadline(time.Now().Add(patience)); err != nil {
		return wire.Identity{}, err
	}
	packet := make([]byte, 1500)
	for token != "" || len(a.owed) > 0 {
		n, err := a.conn.Read(packet)
		if err != nil {
			return wire.Identity{}, err
		}
		var answer wire.Answer
		if json.Unmarshal(packet[:n], &answer) != nil {
			continue
		}
		if answer.Token == token {
			return answer.Answerer, nil
		}
		if a.owed[answer.Token] {
			delete(a.owed, answer.Token)
			a.paid = append(a.paid, answer.Token)
		}
	}
	return wire.Identity{}, nil
}

// late waits for what is owed as long as a client of TCP waits.
func (a *udpAsker) late() []string {
	if a.conn != nil && len(a.owed) > 0 {
		_, _ = a.await("", loadPatience)
	}
	return a.paid
}

func (a *udpAsker) Close() error {
	if a.conn == nil {
		return nil
	}
	return a.conn.Close()
}

// withoutAddresses leaves away the ports that differ each time, so that equal errors can be counted.
func withoutAddresses(err error) error {
	if op, ok := errors.AsType[*net.OpError](err); ok {
		return fmt.Errorf("%s %s: %w", op.Op, op.Net, op.Err)
	}
	return err
}
