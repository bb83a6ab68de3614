package cni

import (
	"context"
	"errors"
	"time"

	"github.com/containernetworking/cni/pkg/skel"
	"github.com/containernetworking/cni/pkg/types"
	current "github.com/containernetworking/cni/pkg/types/100"
	"github.com/containernetworking/cni/pkg/version"
	"github.com/containernetworking/plugins/pkg/ns"
)

// Plugin is what the program atoll-cni does for each command of the specification.
func Plugin(ctx context.Context) skel.CNIFuncs { return plugin{patience: patienceFor}.funcs(ctx) }

// plugin waits for the agent's socket as long as its patience with a command lasts.
type plugin struct {
	patience func(Command) time.Duration
}

func (p plugin) funcs(ctx context.Context) skel.CNIFuncs {
	return skel.CNIFuncs{
		Add:    func(args *skel.CmdArgs) error { return p.add(ctx, args) },
		Del:    func(args *skel.CmdArgs) error { return p.del(ctx, args) },
		Check:  func(args *skel.CmdArgs) error { return p.pass(ctx, Check, args, types.ErrTryAgainLater) },
		GC:     func(args *skel.CmdArgs) error { return p.pass(ctx, GC, args, types.ErrTryAgainLater) },
		Status: func(args *skel.CmdArgs) error { return p.pass(ctx, Status, args, types.ErrPluginNotAvailable) },
	}
}

func (p plugin) add(ctx context.Context, args *skel.CmdArgs) error {
	request, conf, err := parse(Add, args)
	if err != nil {
		return err
	}
	wanted, err := (&version.ConfigDecoder{}).Decode(args.StdinData)
	if err != nil {
		return types.NewError(types.ErrDecodingFailure, err.Error(), "")
	}
	result, err := p.call(ctx, conf, request)
	if err != nil {
		return withCode(err, types.ErrTryAgainLater)
	}
	if result == nil {
		return types.NewError(types.ErrInternal, "the atoll-agent answered without a result", "")
	}
	return types.PrintResult(result, wanted)
}

// del fails while the agent is away, so that the runtime asks again and nothing is forgotten. When the
// container's namespace has gone already, its interface went with it, and the agent's sweep removes the rest:
// then a node without an agent still gets rid of its pods.
func (p plugin) del(ctx context.Context, args *skel.CmdArgs) error {
	request, conf, err := parse(Del, args)
	if err != nil {
		return err
	}
	_, err = p.call(ctx, conf, request)
	var away *awayError
	if errors.As(err, &away) && (request.Netns == "" || ns.IsNSorErr(request.Netns) != nil) {
		return nil //nolint:nilerr // nothing is left to remove
	}
	return withCode(err, types.ErrTryAgainLater)
}

// pass hands a command without a result to the agent. away is the code for one that does not answer.
func (p plugin) pass(ctx context.Context, command Command, args *skel.CmdArgs, away uint) error {
	request, conf, err := parse(command, args)
	if err != nil {
		return err
	}
	_, err = p.call(ctx, conf, request)
	return withCode(err, away)
}

func (p plugin) call(ctx context.Context, conf netConf, request Request) (*current.Result, error) {
	return client{socket: conf.Socket, patience: p.patience(request.Command)}.call(ctx, request)
}

// withCode gives an absent agent the code that the command's specification asks for.
func withCode(err error, code uint) error {
	if away, ok := errors.AsType[*awayError](err); ok {
		return away.as(code)
	}
	return err
}
