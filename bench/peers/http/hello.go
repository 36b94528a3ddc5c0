// SPDX-License-Identifier: MIT

// net/http of Go, with one thread that runs Go code: says its address and answers "Hello, world!"
// until it is killed.  A folder, if given, is served below /.
package main

import (
	"fmt"
	"net"
	"net/http"
	"os"
	"runtime"
)

var hello = []byte("Hello, world!\n")

func main() {
	runtime.GOMAXPROCS(1)
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		panic(err)
	}
	fmt.Printf("http://%s/\n", listener.Addr())
	http.HandleFunc("/hello", func(out http.ResponseWriter, _ *http.Request) {
		out.Header().Set("Content-Type", "text/plain")
		_, _ = out.Write(hello)
	})
	if len(os.Args) > 1 {
		http.Handle("/", http.FileServer(http.Dir(os.Args[1])))
	}
	panic(http.Serve(listener, nil))
}
