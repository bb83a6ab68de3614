// Command shown tells what a program sees in its container. Without arguments it waits, as the first process of a pod
// does.
package main

import (
	"bytes"
	"encoding/json"
	"fmt"
	"os"
	"os/signal"
	"syscall"
)

func main() {
	if len(os.Args) == 1 {
		wait()
		return
	}
	switch os.Args[1] {
	case "show", "stay":
		hosts, err := os.ReadFile("/etc/hosts")
		if err != nil {
			hosts = []byte(err.Error())
		}
		seen, err := json.Marshal(map[string]any{"args": os.Args, "env": os.Environ(), "hosts": string(hosts)})
		if err != nil {
			panic(err)
		}
		fmt.Println(string(seen))
		if os.Args[1] == "stay" {
			wait()
		}
	case "append":
		fmt.Println(write(os.O_APPEND, []byte(os.Args[2]+"\n")))
	case "flood":
		fmt.Println(write(os.O_TRUNC, bytes.Repeat([]byte("10.9.9.9 flood\n"), 1<<18)))
	}
}

func write(flag int, text []byte) error {
	file, err := os.OpenFile("/etc/hosts", os.O_WRONLY|flag, 0)
	if err != nil {
		return err
	}
	_, err = file.Write(text)
	return err
}

func wait() {
	signals := make(chan os.Signal, 1)
	signal.Notify(signals, syscall.SIGTERM, syscall.SIGINT)
	<-signals
}
