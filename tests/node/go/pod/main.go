// Package main is what a pod of the harness' own tests runs: it holds a pod's sandbox (without
// arguments), answers HTTP, asks over HTTP, lists a folder, and uses memory.
package main

import (
	"bytes"
	"crypto/tls"
	"crypto/x509"
	"fmt"
	"io"
	"net/http"
	"os"
	"os/signal"
	"syscall"
	"time"
)

func main() {
	if len(os.Args) == 1 {
		pause()
		return
	}
	if err := run(os.Args[1], os.Args[2:]); err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
}

func run(what string, args []string) error {
	switch {
	case what == "serve" && len(args) == 1:
		return serve(args[0])
	case what == "get" && len(args) == 1:
		return get(args[0])
	case what == "list" && len(args) == 1:
		return list(args[0])
	case what == "eat":
		return eat()
	}
	return fmt.Errorf("call it as: pod | pod serve ADDRESS | pod get URL | pod list FOLDER | pod eat")
}

// pause is the first process of a pod's sandbox: it takes in orphans and waits to be ended.
func pause() {
	signal.Ignore(syscall.SIGCHLD)
	wait := make(chan os.Signal, 1)
	signal.Notify(wait, syscall.SIGINT, syscall.SIGTERM)
	<-wait
}

func serve(address string) error {
	name, err := os.Hostname()
	if err != nil {
		return err
	}
	fmt.Println("serving on", address)
	return http.ListenAndServe(address, http.HandlerFunc(
		func(answer http.ResponseWriter, request *http.Request) {
			fmt.Fprintln(answer, "hello from", name)
		}))
}

// get trusts the cluster's authority, as a pod gets it with its service account.
func get(url string) error {
	authorities := x509.NewCertPool()
	if pem, err := os.ReadFile("/var/run/secrets/kubernetes.io/serviceaccount/ca.crt"); err == nil {
		authorities.AppendCertsFromPEM(pem)
	}
	client := http.Client{
		Timeout:   5 * time.Second,
		Transport: &http.Transport{TLSClientConfig: &tls.Config{RootCAs: authorities}},
	}
	answer, err := client.Get(url)
	if err != nil {
		return err
	}
	defer answer.Body.Close()
	_, err = io.Copy(os.Stdout, answer.Body)
	return err
}

func list(folder string) error {
	entries, err := os.ReadDir(folder)
	for _, entry := range entries {
		fmt.Println(entry.Name())
	}
	return err
}

// eat takes memory until it is stopped.
func eat() error {
	var eaten [][]byte
	for {
		eaten = append(eaten, bytes.Repeat([]byte{1}, 1<<20))
		time.Sleep(time.Millisecond)
	}
}
