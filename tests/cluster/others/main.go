// Package main reads objects of the Prometheus operator from standard input, as its own types read
// them, and refuses what they do not know.
package main

import (
	"fmt"
	"io"
	"os"

	monitoringv1 "github.com/prometheus-operator/prometheus-operator/pkg/apis/monitoring/v1"
	"sigs.k8s.io/yaml"
)

var types = map[string]func() any{
	"PodMonitor":     func() any { return &monitoringv1.PodMonitor{} },
	"PrometheusRule": func() any { return &monitoringv1.PrometheusRule{} },
}

func main() {
	made, known := types[os.Args[len(os.Args)-1]]
	if !known {
		fmt.Fprintln(os.Stderr, "give a kind: PodMonitor or PrometheusRule")
		os.Exit(2)
	}
	text, err := io.ReadAll(os.Stdin)
	if err == nil {
		err = yaml.UnmarshalStrict(text, made())
	}
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
}
