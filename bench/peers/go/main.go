// SPDX-License-Identifier: MIT

// The rows of the benchmarks on Go's scheduler and channels; bench/README.md defines each row.
package main

import (
	"net"
	"os"
	"os/exec"
	"runtime"
	"sort"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"time"
)

var rows = []row{
	{"spawn-join-1000", "task", 200000, spawnJoin},
	{"spawn-await", "task", 100000, spawnAwait},
	{"yield-2", "switch", 500000, func(ops int) int64 { return yield(ops, 2) }},
	{"yield-1000", "switch", 500000, func(ops int) int64 { return yield(ops, 1000) }},
	{"ping-pong", "round trip", 200000, pingPong},
	{"chan-1p1c", "item", 1000000, func(ops int) int64 { return channel(ops, 1) }},
	{"chan-4p4c", "item", 1000000, func(ops int) int64 { return channel(ops, 4) }},
	{"ring-503", "hop", 500000, ring},
	{"sieve-2000", "run", 1, sieve},
	{"select-2", "item", 1000000, selectTwo},
	{"mutex-1", "lock", 2000000, func(ops int) int64 { return mutex(ops, 1) }},
	{"mutex-4", "lock", 2000000, func(ops int) int64 { return mutex(ops, 4) }},
	{"mutex-64", "lock", 2000000, func(ops int) int64 { return mutex(ops, 64) }},
	{"rwlock-read-1", "lock", 2000000, func(ops int) int64 { return rwlock(ops, 1, 0) }},
	{"rwlock-write-1", "lock", 2000000, func(ops int) int64 { return rwlock(ops, 1, 1) }},
	{"rwlock-8", "lock", 1000000, func(ops int) int64 { return rwlock(ops, 8, 1) }},
	{"skynet-1m", "run", 1, skynet},
	{"wake-parked", "wake", 500, wakeParked},
	{"blocked-1m-create", "task", 1000000, func(ops int) int64 { create, _ := blocked(ops); return create }},
	{"blocked-1m-wake", "task", 1000000, func(ops int) int64 { _, wake := blocked(ops); return wake }},
	{"sleep-1m", "task", 1000000, func(ops int) int64 { sleep(ops); return 0 }},
	{"sleep-1m-late", "task", 1000000, sleep},
	{"echo-50", "request", 200000, func(ops int) int64 { echo(ops, 50); return 0 }},
	{"echo-1000", "request", 200000, func(ops int) int64 { echo(ops, 1000); return 0 }},
	{"echo-50-p99", "request", 200000, func(ops int) int64 { return echo(ops, 50) * int64(ops) }},
	{"echo-1000-p99", "request", 200000, func(ops int) int64 { return echo(ops, 1000) * int64(ops) }},
	{"churn-50", "connection", 10000, func(ops int) int64 { echo(ops, 50, "churn"); return 0 }},
	{"idle-conn", "connection", 8000, func(ops int) int64 { echo(ops, ops); return 0 }},
	{"proc-spawn-exit", "process", 200000, spawnJoin},
	{"proc-request", "request", 200000, pingPong},
	{"proc-ring-503", "hop", 500000, ring},
}

func spawnJoin(ops int) int64 {
	const batch = 1000
	var done sync.WaitGroup
	for i := 0; i < ops; i += batch {
		done.Add(batch)
		for j := 0; j < batch; j++ {
			go done.Done()
		}
		done.Wait()
	}
	return 0
}

func spawnAwait(ops int) int64 {
	result := make(chan int)
	sum := 0
	for i := 0; i < ops; i++ {
		go func() { result <- 1 }()
		sum += <-result
	}
	check(sum == ops, "every task answers")
	return 0
}

// Starts count tasks and waits for them all.
func together(count int, task func(number int)) {
	var done sync.WaitGroup
	done.Add(count)
	for i := 0; i < count; i++ {
		go func(number int) {
			defer done.Done()
			task(number)
		}(i)
	}
	done.Wait()
}

func yield(ops, tasks int) int64 {
	together(tasks, func(int) {
		for i := 0; i < ops/tasks; i++ {
			runtime.Gosched()
		}
	})
	return 0
}

func pingPong(ops int) int64 {
	ping, pong := make(chan int), make(chan int)
	go func() {
		for value := range ping {
			pong <- value + 1
		}
	}()
	value := 0
	for i := 0; i < ops; i++ {
		ping <- value
		value = <-pong
	}
	close(ping)
	check(value == ops, "every ping has its pong")
	return 0
}

func channel(ops, pairs int) int64 {
	items := make(chan int, 128)
	sums := make([]int, pairs)
	var producers sync.WaitGroup
	producers.Add(pairs)
	go func() {
		producers.Wait()
		close(items)
	}()
	together(2*pairs, func(number int) {
		if number < pairs {
			for i := 0; i < ops/pairs; i++ {
				items <- 1
			}
			producers.Done()
			return
		}
		sum := 0
		for item := range items {
			sum += item
		}
		sums[number-pairs] = sum
	})
	total := 0
	for _, sum := range sums {
		total += sum
	}
	check(total == ops/pairs*pairs, "every item arrives")
	return 0
}

// The token counts hops down; below 0 it goes round once more and ends the tasks.
func ring(ops int) int64 {
	const tasks = 503
	done := make(chan bool)
	first := make(chan int)
	from := first
	for i := 1; i <= tasks; i++ {
		to := make(chan int)
		isLast := i == tasks
		if isLast {
			to = first
		}
		go func(from, to chan int) {
			for {
				token := <-from
				if token > 0 || (token < 0 && !isLast) {
					to <- token - 1
				}
				if token < 0 {
					return
				}
				if token == 0 {
					done <- true
				}
			}
		}(from, to)
		from = to
	}
	first <- ops
	<-done
	first <- -1
	return 0
}

const lastPrime = 17389

func sieve(ops int) int64 {
	for i := 0; i < ops; i++ {
		numbers := make(chan int)
		go func(out chan<- int) {
			for n := 2; n <= lastPrime; n++ {
				out <- n
			}
			close(out)
		}(numbers)
		found, last := 0, 0
		for in := numbers; ; {
			prime, isOpen := <-in
			if !isOpen {
				break
			}
			found, last = found+1, prime
			out := make(chan int)
			go func(in <-chan int, out chan<- int) {
				for n := range in {
					if n%prime != 0 {
						out <- n
					}
				}
				close(out)
			}(in, out)
			in = out
		}
		check(found == 2000 && last == lastPrime, "2000 primes")
	}
	return 0
}

// The first of the tasks write, the others read.
func rwlock(ops, tasks, writers int) int64 {
	var lock sync.RWMutex
	counter := 0
	together(tasks, func(number int) {
		sum := 0
		for i := 0; i < ops/tasks; i++ {
			if number < writers {
				lock.Lock()
				counter++
				lock.Unlock()
			} else {
				lock.RLock()
				sum += counter
				lock.RUnlock()
			}
		}
		check(sum >= 0, "what is read was written")
	})
	check(counter == ops/tasks*writers, "no increment is lost")
	return 0
}

func selectTwo(ops int) int64 {
	chans := [2]chan int{make(chan int, 1), make(chan int, 1)}
	for i := 0; i < ops; i++ {
		chans[i%2] <- i
		item := -1
		select {
		case item = <-chans[0]:
		case item = <-chans[1]:
		}
		check(item == i, "the item that was sent")
	}
	return 0
}

func mutex(ops, tasks int) int64 {
	var lock sync.Mutex
	counter := 0
	together(tasks, func(int) {
		for i := 0; i < ops/tasks; i++ {
			lock.Lock()
			counter++
			lock.Unlock()
		}
	})
	check(counter == ops/tasks*tasks, "no increment is lost")
	return 0
}

func skynetNode(result chan<- int, number, size int) {
	if size == 1 {
		result <- number
		return
	}
	children := make(chan int)
	for i := 0; i < 10; i++ {
		go skynetNode(children, number+i*(size/10), size/10)
	}
	sum := 0
	for i := 0; i < 10; i++ {
		sum += <-children
	}
	result <- sum
}

func skynet(ops int) int64 {
	for i := 0; i < ops; i++ {
		result := make(chan int)
		go skynetNode(result, 0, 1000000)
		check(<-result == 499999500000, "the sum of all leaves")
	}
	return 0
}

// Go knows no outside: the task that starts others keeps one processor more than there are workers
// busy, and all others sleep.
func wakeParked(ops int) int64 {
	const pause = 300 * time.Microsecond
	defer runtime.GOMAXPROCS(runtime.GOMAXPROCS(runtime.GOMAXPROCS(0) + 1))
	samples := make([]int, ops)
	for i := range samples {
		for start := time.Now(); time.Since(start) < pause; {
		}
		var arrived atomic.Int64
		start := time.Now()
		go func() { arrived.Store(time.Since(start).Nanoseconds()) }()
		for arrived.Load() == 0 {
		}
		samples[i] = int(arrived.Load())
	}
	sort.Ints(samples)
	return int64(samples[ops/2] * ops)
}

// Gives how long it took until all tasks waited, and until all had ended.
func blocked(ops int) (int64, int64) {
	gate := make(chan bool)
	var ready, done sync.WaitGroup
	ready.Add(ops)
	done.Add(ops)
	start := time.Now()
	for i := 0; i < ops; i++ {
		go func() {
			ready.Done()
			<-gate
			done.Done()
		}()
	}
	ready.Wait()
	create := time.Since(start)
	start = time.Now()
	close(gate)
	done.Wait()
	return create.Nanoseconds(), time.Since(start).Nanoseconds()
}

// Gives the sum of what all tasks overslept.
func sleep(ops int) int64 {
	late := make([]int64, ops)
	together(ops, func(number int) {
		span := time.Duration(1+number*7919%1000) * time.Millisecond
		start := time.Now()
		time.Sleep(span)
		late[number] = int64(time.Since(start) - span)
	})
	sum := int64(0)
	for _, ns := range late {
		sum += ns
	}
	return sum
}

// Serves the load until it has ended: the 99th percentile of its requests.
func echo(ops int, connections int, more ...string) int64 {
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	check(err == nil, "listen")
	go func() {
		for {
			conn, err := listener.Accept()
			if err != nil {
				return
			}
			go func() {
				defer conn.Close()
				buffer := make([]byte, 4096)
				for {
					got, err := conn.Read(buffer)
					if err != nil {
						return
					}
					if _, err := conn.Write(buffer[:got]); err != nil {
						return
					}
				}
			}()
		}
	}()
	port := listener.Addr().(*net.TCPAddr).Port
	arguments := append([]string{strconv.Itoa(port), strconv.Itoa(connections), strconv.Itoa(ops)}, more...)
	output, err := exec.Command(os.Getenv("BENCH_LOAD"), arguments...).Output()
	check(err == nil, "load")
	listener.Close()
	p99, err := strconv.ParseInt(strings.Fields(string(output))[2], 10, 64)
	check(err == nil, "what the load said")
	return p99
}
