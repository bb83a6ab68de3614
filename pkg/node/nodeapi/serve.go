package nodeapi

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"net"
	"net/http"
	"time"

	api "github.com/atoll-net/atoll/pkg/apis/inspect/v1alpha1"
	"github.com/atoll-net/atoll/pkg/domain/model"
	"github.com/atoll-net/atoll/pkg/node/ping"
	"github.com/atoll-net/atoll/pkg/process/turns"
)

// atOnce is how many questions with short answers an agent answers at the same time, and how many captures.
func atOnce() turns.Bounds { return turns.Bounds{Every: 8, Each: 4, Kept: 2} }

// Answers are what an agent answers with.
type Answers interface {
	// Ping sends packets from a pod, and tells of each. Its error is a RefusedError where nothing was sent.
	Ping(ctx context.Context, pod Pod, spec ping.Spec, each func(ping.Reply)) error
	// Flows tells of flows of the node until each fails, or ctx ends. Its error is a RefusedError where there are none to tell of.
	Flows(ctx context.Context, q model.FlowQuestion, each func(model.Flow) error) error
	// Capture tells of packets of a pod until the part that is asked for is over. Its error is a RefusedError where none were taken.
	Capture(ctx context.Context, q CaptureQuestion, each func(CaptureLine) error) error
	// Observe tells where on the node marked packets are seen, until ctx ends or the question's time is over. The first line is told
	// once they are seen.
	Observe(ctx context.Context, q ObserveQuestion, each func(ObserveLine) error) error
	// Connect opens a socket of the node, and says how much of it may be used. Its error is a RefusedError where there is no such socket.
	Connect(ctx context.Context, q ConnectQuestion) (net.Conn, Gate, error)
	// Check compares what is on the node with what should be, and puts it right where that is asked for. Its error is a RefusedError
	// where it cannot tell.
	Check(ctx context.Context, repair bool) (api.NodeCheckStatus, error)
}

// Handler answers questions. Who may ask, is TLS' to know.
func Handler(answers Answers, log *slog.Logger) http.Handler { return newHandler(answers, log).mux() }

func newHandler(answers Answers, log *slog.Logger) *handler {
	return &handler{
		answers: answers, log: log, turns: turns.New("pings", atOnce()), captures: turns.New("captures", atOnce()),
		flowTurns:   turns.New("questions about flows", turns.Bounds{Every: maxFlowsAtOnce - maxFollowers, Each: 4, Kept: 2}),
		followers:   turns.New("followers of flows", turns.Bounds{Every: maxFollowers, Each: 4, Kept: 4}),
		connections: turns.New("connections", turns.Bounds{Every: maxConnections, Each: maxConnections}), observations: turns.New("watches",
			turns.Bounds{Every: maxObservationsAtOnce, Each: 2, Kept: 1}),
		followTime: followTime, checks: turns.New("checks", turns.Bounds{Every: maxChecksAtOnce, Each: maxChecksAtOnce}),
	}
}

func (h *handler) mux() http.Handler {
	mux := http.NewServeMux()
	mux.HandleFunc("POST "+pathPing, h.ping)
	mux.HandleFunc("POST "+pathCapture, h.capture)
	mux.HandleFunc("POST "+pathObserve, h.observe)
	mux.HandleFunc("POST "+pathFlows, h.flows)
	mux.HandleFunc("POST "+pathConnect, h.connect)
	mux.HandleFunc("POST "+pathCheck, h.check)
	return mux
}

type handler struct {
	answers Answers
	log     *slog.Logger
	// turns are for questions with short answers, captures for those that last.
	turns, captures *turns.Turns
	// observations are those that watch all packets of the node.
	observations *turns.Turns
	// flowTurns are those of questions about flows that are kept, followers of those who hear what comes.
	flowTurns, followers *turns.Turns
	// followTime is how long somebody follows.
	followTime time.Duration
	// connections are those of connections to sockets, which may last.
	connections *turns.Turns
	// checks are those of checks, which take the most of the node.
	checks *turns.Turns
}

// Server returns an HTTP server for h, without TLS. It sets no ReadTimeout: when that expires, net/http treats the client as gone,
// even while it is being answered.
func Server(h http.Handler, log *slog.Logger) *http.Server {
	return &http.Server{
		Handler: h, ReadHeaderTimeout: dialTime, WriteTimeout: answerTime, IdleTimeout: time.Minute, MaxHeaderBytes: maxQuestion,
		ErrorLog: slog.NewLogLogger(log.Handler(), slog.LevelDebug),
	}
}

// begin reads a question of so many bytes at most, and waits for nobody: if there are too many already it is refused. Who is let
// in calls leave.
func begin[Q asked](w http.ResponseWriter, r *http.Request, most int64, from *turns.Turns) (q Q, leave func(), ok bool) {
	return beginOf(w, r, most, func(Q) *turns.Turns { return from })
}

// beginOf is begin where the question says which turn it takes.
func beginOf[Q asked](w http.ResponseWriter, r *http.Request, most int64, from func(Q) *turns.Turns) (q Q, leave func(), ok bool) {
	text, err := readWithin(http.NewResponseController(w), http.MaxBytesReader(w, r.Body, most))
	if err == nil {
		err = json.Unmarshal(text, &q)
	}
	if err == nil {
		err = q.Check()
	}
	if err != nil {
		refuse(w, http.StatusBadRequest, err)
		return q, nil, false
	}
	if leave, err = from(q).Enter(q.by()); err != nil {
		refuse(w, http.StatusTooManyRequests, fmt.Errorf("the node's agent answers as many questions at once as it may: %w", err))
		return q, nil, false
	}
	return q, leave, true
}

// refuseFor answers with why there is no answer.
func refuseFor(w http.ResponseWriter, err error) {
	status := http.StatusConflict
	if refused, ok := errors.AsType[*RefusedError](err); !ok || refused.Temporary {
		status = http.StatusServiceUnavailable
	}
	refuse(w, status, err)
}

func (h *handler) ping(w http.ResponseWriter, r *http.Request) {
	q, leave, ok := begin[Question](w, r, maxQuestion, h.turns)
	if !ok {
		return
	}
	defer leave()
	log := h.log.With("user", shortened(q.User), "pod", q.Pod.Key(), "uid", q.Pod.UID)
	log.Info("packets are sent from a pod", "protocol", q.Ping.Protocol, "targets", q.Ping.Targets, "port", q.Ping.Port, "count", q.Ping.Count)
	ctx, cancel := context.WithTimeout(r.Context(), answerTime)
	defer cancel()
	out := &lines{w: w, control: http.NewResponseController(w)}
	tell := func(line Line) {
		if out.write(line) != nil {
			cancel()
		}
	}
	switch err := h.answers.Ping(ctx, q.Pod, q.Ping, func(reply ping.Reply) { tell(Line{Reply: &reply}) }); {
	case err != nil && !out.begun:
		log.Info("no packets were sent from a pod", "error", err)
		refuseFor(w, err)
	case err != nil:
		tell(Line{Error: err.Error()})
	default:
		tell(Line{End: true})
	}
}

// readWithin reads all that a client sends, who may take no longer for it than a connection may take to be made.
func readWithin(control *http.ResponseController, body io.Reader) ([]byte, error) {
	if err := control.SetReadDeadline(time.Now().Add(dialTime)); err != nil {
		return nil, fmt.Errorf("read the question: %w", err)
	}
	text, err := io.ReadAll(body)
	if err != nil {
		return nil, fmt.Errorf("read the question: %w", err)
	}
	if err := control.SetReadDeadline(time.Time{}); err != nil {
		return nil, fmt.Errorf("read the question: %w", err)
	}
	return text, nil
}

// lines writes lines, each at once. Its error is that the reader has gone, or does not read.
type lines struct {
	w       http.ResponseWriter
	control *http.ResponseController
	begun   bool
}

func (l *lines) write(line any) error {
	if !l.begun {
		l.begun = true
		l.w.Header().Set("Content-Type", "application/x-ndjson")
	}
	err := l.control.SetWriteDeadline(time.Now().Add(writeTime))
	if err == nil {
		err = json.NewEncoder(l.w).Encode(line)
	}
	if err == nil {
		err = l.control.Flush()
	}
	if err != nil {
		return fmt.Errorf("write a line: %w", err)
	}
	return nil
}

func refuse(w http.ResponseWriter, status int, err error) { http.Error(w, err.Error(), status) }
