package cli

import (
	"context"
	"slices"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"github.com/atoll-net/atoll/pkg/inspect/client"
)

// completionTime bounds the wait for completions: the shell is blocked meanwhile.
const completionTime = 2 * time.Second

// names ask the API for what may follow. Where it cannot be asked, nothing may.
type names func(ctx context.Context, remote *client.Remote, typed string) []string

// completed has the first count arguments of a command completed by names.
func completed(cmd *cobra.Command, count int, kubeconfig *string, ask names) {
	cmd.ValidArgsFunction = func(cmd *cobra.Command, args []string, typed string) ([]cobra.Completion, cobra.ShellCompDirective) {
		if len(args) >= count {
			return nil, cobra.ShellCompDirectiveNoFileComp
		}
		return complete(cmd, kubeconfig, ask, typed)
	}
}

// completedFlag has the value of a flag completed by names.
func completedFlag(cmd *cobra.Command, flag string, kubeconfig *string, ask names) {
	// Its error is that there is no such flag, or that it is completed twice: the test of it would not find the names.
	_ = cmd.RegisterFlagCompletionFunc(
		flag, func(cmd *cobra.Command, _ []string, typed string) ([]cobra.Completion, cobra.ShellCompDirective) {
			return complete(cmd, kubeconfig, ask, typed)
		})
}

func complete(cmd *cobra.Command, kubeconfig *string, ask names, typed string) ([]cobra.Completion, cobra.ShellCompDirective) {
	const directive = cobra.ShellCompDirectiveNoFileComp
	remote, err := client.NewRemote(*kubeconfig)
	if err != nil {
		return nil, directive
	}
	ctx, cancel := context.WithTimeout(cmd.Context(), completionTime)
	defer cancel()
	var out []cobra.Completion
	for _, name := range ask(ctx, remote, typed) {
		if strings.HasPrefix(name, typed) {
			out = append(out, name)
		}
	}
	return out, directive
}

// networkNames returns the Networks that the user may get.
func networkNames(ctx context.Context, remote *client.Remote, _ string) (out []string) {
	all, _, err := remote.Networks(ctx)
	if err != nil {
		return nil
	}
	for _, n := range all {
		out = append(out, n.Name)
	}
	return out
}

// tenantNames returns the tenants of the Networks that the user may get.
func tenantNames(ctx context.Context, remote *client.Remote, _ string) (out []string) {
	all, _, err := remote.Networks(ctx)
	if err != nil {
		return nil
	}
	for _, n := range all {
		if n.Status.Tenant != "" {
			out = append(out, n.Status.Tenant)
		}
	}
	slices.Sort(out)
	return slices.Compact(out)
}

// namespaceNames returns the namespaces that the user may list, else those of the user's Networks.
func namespaceNames(ctx context.Context, remote *client.Remote, _ string) []string {
	return remote.Namespaces(ctx)
}

// podNames returns pods as NAMESPACE/NAME. Until a namespace is typed, it returns namespaces, each with a slash.
func podNames(ctx context.Context, remote *client.Remote, typed string) (out []string) {
	namespace, _, chosen := strings.Cut(typed, "/")
	if !chosen {
		for _, name := range remote.Namespaces(ctx) {
			out = append(out, name+"/")
		}
		return out
	}
	pods, _, err := remote.Pods(ctx, namespace)
	if err != nil {
		return nil
	}
	for _, p := range pods {
		out = append(out, p.Namespace+"/"+p.Name)
	}
	return out
}
