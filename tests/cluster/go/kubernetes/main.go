// Package main is Kubernetes' control plane, node and kubectl in one program: the name that it is
// called by, or else its first argument, says which one runs.
package main

import (
	"context"
	"fmt"
	"os"
	"path/filepath"

	"github.com/spf13/cobra"
	"k8s.io/component-base/cli"
	_ "k8s.io/component-base/logs/json/register"
	_ "k8s.io/component-base/metrics/prometheus/clientgo"
	_ "k8s.io/component-base/metrics/prometheus/version"
	"k8s.io/kubectl/pkg/cmd"
	"k8s.io/kubectl/pkg/cmd/util"
	apiserver "k8s.io/kubernetes/cmd/kube-apiserver/app"
	controllermanager "k8s.io/kubernetes/cmd/kube-controller-manager/app"
	proxy "k8s.io/kubernetes/cmd/kube-proxy/app"
	scheduler "k8s.io/kubernetes/cmd/kube-scheduler/app"
	kubelet "k8s.io/kubernetes/cmd/kubelet/app"
)

var programs = map[string]func() int{
	"kube-apiserver":          run(apiserver.NewAPIServerCommand),
	"kube-controller-manager": run(controllermanager.NewControllerManagerCommand),
	"kube-scheduler":          run(func() *cobra.Command { return scheduler.NewSchedulerCommand() }),
	"kube-proxy":              run(proxy.NewProxyCommand),
	"kubectl":                 kubectl,
	"kubelet":                 run(func() *cobra.Command { return kubelet.NewKubeletCommand(context.Background()) }),
}

func main() {
	program, known := programs[filepath.Base(os.Args[0])]
	if !known && len(os.Args) > 1 {
		os.Args = os.Args[1:]
		program, known = programs[os.Args[0]]
	}
	if !known {
		fmt.Fprintln(os.Stderr, "call it as kube-apiserver, kube-controller-manager, kube-scheduler, kube-proxy, kubelet or kubectl")
		os.Exit(2)
	}
	os.Exit(program())
}

func run(command func() *cobra.Command) func() int {
	return func() int { return cli.Run(command()) }
}

// kubectl words its own errors, such as those of the API server, and chooses the exit status.
func kubectl() int {
	if err := cli.RunNoErrOutput(cmd.NewDefaultKubectlCommand()); err != nil {
		util.CheckErr(err)
	}
	return 0
}
