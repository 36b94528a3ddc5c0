// SPDX-License-Identifier: MIT

//! The rows of the benchmarks on Tokio; bench/README.md defines each row.
//!
//! Everything runs inside a spawned task: `block_on` itself is not on a worker.  Tokio has no
//! unbuffered channel, so a capacity of one stands in for it, and no channel with many receivers,
//! so `async-channel` does.

use std::future::Future;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, OnceLock};
use std::time::{Duration, Instant};
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::TcpListener;
use tokio::runtime::{Builder, Runtime};
use tokio::sync::{broadcast, mpsc, oneshot, watch, Barrier, Mutex, Notify, OnceCell, RwLock, Semaphore};
use tokio::task::{spawn, yield_now, JoinHandle};
use weft_peers::{answer, Row, Run};

/// The warm-up starts the runtime, so that it is not measured.
fn runtime(workers: usize) -> &'static Runtime {
    static RUNTIME: OnceLock<Runtime> = OnceLock::new();
    RUNTIME.get_or_init(|| {
        Builder::new_multi_thread().worker_threads(workers).enable_all().build().unwrap()
    })
}

/// Runs the future as a task.
fn run<F, T>(workers: usize, future: F) -> T
where
    F: Future<Output = T> + Send + 'static,
    T: Send + 'static,
{
    runtime(workers).block_on(async { spawn(future).await.unwrap() })
}

/// The same for a row that the harness times.
fn measure<F>(workers: usize, future: F) -> u64
where
    F: Future<Output = ()> + Send + 'static,
{
    run(workers, future);
    0
}

async fn join_all(tasks: Vec<JoinHandle<u64>>) -> u64 {
    let mut sum = 0;
    for task in tasks {
        sum += task.await.unwrap();
    }
    sum
}

fn spawn_join(ops: u64, workers: usize) -> u64 {
    measure(workers, async move {
        for _ in 0..ops / 1000 {
            let tasks = (0..1000).map(|_| spawn(async { 1 })).collect();
            assert_eq!(join_all(tasks).await, 1000);
        }
    })
}

fn spawn_await(ops: u64, workers: usize) -> u64 {
    measure(workers, async move {
        let mut sum = 0;
        for _ in 0..ops {
            sum += spawn(async { 1 }).await.unwrap();
        }
        assert_eq!(sum, ops);
    })
}

fn spawn_outside(ops: u64, workers: usize) -> u64 {
    let runtime = runtime(workers);
    for _ in 0..ops / 1000 {
        let tasks = (0..1000).map(|_| runtime.spawn(async { 1 })).collect();
        assert_eq!(runtime.block_on(join_all(tasks)), 1000);
    }
    0
}

fn yield_among<const TASKS: u64>(ops: u64, workers: usize) -> u64 {
    measure(workers, async move {
        let yielder = |_| {
            spawn(async move {
                for _ in 0..ops / TASKS {
                    yield_now().await;
                }
                0
            })
        };
        join_all((0..TASKS).map(yielder).collect()).await;
    })
}

fn ping_pong(ops: u64, workers: usize) -> u64 {
    measure(workers, async move {
        let (ping, mut pinged) = mpsc::channel::<u64>(1);
        let (pong, mut ponged) = mpsc::channel::<u64>(1);
        spawn(async move {
            while let Some(value) = pinged.recv().await {
                pong.send(value + 1).await.unwrap();
            }
        });
        let mut value = 0;
        for _ in 0..ops {
            ping.send(value).await.unwrap();
            value = ponged.recv().await.unwrap();
        }
        assert_eq!(value, ops);
    })
}

fn channel_1p1c(ops: u64, workers: usize) -> u64 {
    measure(workers, async move {
        let (sender, mut receiver) = mpsc::channel::<u64>(128);
        let producer = spawn(async move {
            for _ in 0..ops {
                sender.send(1).await.unwrap();
            }
            0
        });
        let consumer = spawn(async move {
            let mut sum = 0;
            while let Some(item) = receiver.recv().await {
                sum += item;
            }
            sum
        });
        assert_eq!(join_all(vec![producer, consumer]).await, ops);
    })
}

fn channel_4p4c(ops: u64, workers: usize) -> u64 {
    measure(workers, async move {
        let (sender, receiver) = async_channel::bounded::<u64>(128);
        let mut tasks = Vec::new();
        for _ in 0..4 {
            let sender = sender.clone();
            tasks.push(spawn(async move {
                for _ in 0..ops / 4 {
                    sender.send(1).await.unwrap();
                }
                0
            }));
            let receiver = receiver.clone();
            tasks.push(spawn(async move {
                let mut sum = 0;
                while let Ok(item) = receiver.recv().await {
                    sum += item;
                }
                sum
            }));
        }
        drop(sender);
        assert_eq!(join_all(tasks).await, ops / 4 * 4);
    })
}

fn ring(ops: u64, workers: usize) -> u64 {
    measure(workers, async move {
        let (first, mut from) = mpsc::channel::<u64>(1);
        let (done, mut finished) = mpsc::channel::<()>(1);
        let mut tasks = Vec::new();
        for i in 1..=503 {
            let (next, next_from) = mpsc::channel::<u64>(1);
            let to = if i == 503 { first.clone() } else { next };
            let done = done.clone();
            let mut from = std::mem::replace(&mut from, next_from);
            tasks.push(spawn(async move {
                while let Some(token) = from.recv().await {
                    if token == 0 {
                        done.send(()).await.unwrap();
                    } else {
                        to.send(token - 1).await.unwrap();
                    }
                }
            }));
        }
        first.send(ops).await.unwrap();
        finished.recv().await.unwrap();
        tasks.iter().for_each(JoinHandle::abort); // they wait in a circle
    })
}

fn sieve(ops: u64, workers: usize) -> u64 {
    measure(workers, async move {
        for _ in 0..ops {
            let (sender, mut receiver) = mpsc::channel::<u64>(1);
            spawn(async move {
                for n in 2..=17389 {
                    sender.send(n).await.unwrap();
                }
            });
            let (mut found, mut last) = (0, 0);
            while let Some(prime) = receiver.recv().await {
                (found, last) = (found + 1, prime);
                let (out, next) = mpsc::channel::<u64>(1);
                let mut numbers = std::mem::replace(&mut receiver, next);
                spawn(async move {
                    while let Some(n) = numbers.recv().await {
                        if n % prime != 0 {
                            out.send(n).await.unwrap();
                        }
                    }
                });
            }
            assert_eq!((found, last), (2000, 17389));
        }
    })
}

fn one_shot(ops: u64, workers: usize) -> u64 {
    measure(workers, async move {
        let mut sum = 0;
        for _ in 0..ops {
            let (sender, receiver) = oneshot::channel::<u64>();
            sender.send(1).unwrap();
            sum += receiver.await.unwrap();
        }
        assert_eq!(sum, ops);
    })
}

fn broadcast_4(ops: u64, workers: usize) -> u64 {
    measure(workers, async move {
        let (sender, receiver) = broadcast::channel::<u64>(16);
        let mut receivers: Vec<_> = (0..3).map(|_| sender.subscribe()).collect();
        receivers.push(receiver);
        let mut sum = 0;
        for _ in 0..ops {
            sender.send(1).unwrap();
            for receiver in receivers.iter_mut() {
                sum += receiver.recv().await.unwrap();
            }
        }
        assert_eq!(sum, 4 * ops);
    })
}

fn watch_it(ops: u64, workers: usize) -> u64 {
    measure(workers, async move {
        let (sender, mut receiver) = watch::channel::<u64>(0);
        for value in 1..=ops {
            sender.send(value).unwrap();
            receiver.changed().await.unwrap();
            assert_eq!(*receiver.borrow_and_update(), value);
        }
    })
}

fn mutex<const TASKS: u64>(ops: u64, workers: usize) -> u64 {
    measure(workers, async move {
        let counter = Arc::new(Mutex::new(0u64));
        let locker = |_| {
            let counter = counter.clone();
            spawn(async move {
                for _ in 0..ops / TASKS {
                    *counter.lock().await += 1;
                }
                0
            })
        };
        join_all((0..TASKS).map(locker).collect()).await;
        assert_eq!(*counter.lock().await, ops / TASKS * TASKS);
    })
}

/// One of the tasks writes, or all do, or none.
fn rwlock<const TASKS: u64, const WRITERS: u64>(ops: u64, workers: usize) -> u64 {
    measure(workers, async move {
        let counter = Arc::new(RwLock::new(0u64));
        let locker = |number| {
            let counter = counter.clone();
            spawn(async move {
                let mut sum = 0u64;
                for _ in 0..ops / TASKS {
                    if number < WRITERS {
                        *counter.write().await += 1;
                    } else {
                        sum += *counter.read().await;
                    }
                }
                sum
            })
        };
        join_all((0..TASKS).map(locker).collect()).await;
        assert_eq!(*counter.read().await, ops / TASKS * WRITERS);
    })
}

fn semaphore<const TASKS: u64>(ops: u64, workers: usize) -> u64 {
    measure(workers, async move {
        let permits = Arc::new(Semaphore::new(2));
        let taker = |_| {
            let permits = permits.clone();
            spawn(async move {
                for _ in 0..ops / TASKS {
                    drop(permits.acquire().await.unwrap());
                }
                0
            })
        };
        join_all((0..TASKS).map(taker).collect()).await;
        assert_eq!(permits.available_permits(), 2);
    })
}

fn notify(ops: u64, workers: usize) -> u64 {
    measure(workers, async move {
        let notify = Notify::new();
        for _ in 0..ops {
            notify.notify_one();
            notify.notified().await;
        }
    })
}

fn barrier<const TASKS: u64>(ops: u64, workers: usize) -> u64 {
    measure(workers, async move {
        let barrier = Arc::new(Barrier::new(TASKS as usize));
        let party = |_| {
            let barrier = barrier.clone();
            spawn(async move {
                for _ in 0..ops / TASKS {
                    barrier.wait().await;
                }
                0
            })
        };
        join_all((0..TASKS).map(party).collect()).await;
    })
}

fn once_get(ops: u64, workers: usize) -> u64 {
    measure(workers, async move {
        let cell = OnceCell::new();
        cell.set(1u64).unwrap();
        for _ in 0..ops {
            assert!(std::hint::black_box(&cell).get().is_some());
        }
    })
}

fn once_set(ops: u64, workers: usize) -> u64 {
    measure(workers, async move {
        for i in 0..ops {
            let cell = OnceCell::new();
            std::hint::black_box(&cell).set(i).unwrap();
            assert_eq!(std::hint::black_box(&cell).get(), Some(&i));
        }
    })
}

fn skynet_node(number: u64, size: u64) -> JoinHandle<u64> {
    spawn(async move {
        if size == 1 {
            return number;
        }
        let child = |i| skynet_node(number + i * (size / 10), size / 10);
        join_all((0..10).map(child).collect()).await
    })
}

fn skynet(ops: u64, workers: usize) -> u64 {
    measure(workers, async move {
        for _ in 0..ops {
            assert_eq!(skynet_node(0, 1_000_000).await.unwrap(), 499_999_500_000);
        }
    })
}

/// Starts a task from a thread that is no worker while all workers sleep.
fn wake_parked(ops: u64, workers: usize) -> u64 {
    let runtime = runtime(workers);
    let arrived = Arc::new(AtomicU64::new(0));
    let mut samples = Vec::new();
    for _ in 0..ops {
        let pause = Instant::now();
        while pause.elapsed() < Duration::from_micros(300) {}
        arrived.store(0, Ordering::Relaxed);
        let arriving = arrived.clone();
        let start = Instant::now();
        runtime.spawn(async move {
            arriving.store(start.elapsed().as_nanos() as u64, Ordering::Release);
        });
        let sample = loop {
            match arrived.load(Ordering::Acquire) {
                0 => (),
                ns => break ns,
            }
        };
        samples.push(sample);
    }
    samples.sort();
    samples[samples.len() / 2] * ops
}

/// Gives how long it took until all tasks waited, and until all had ended.
async fn blocked(ops: u64) -> (u64, u64) {
    let gate = Arc::new(Semaphore::new(0));
    let arrived = Arc::new(AtomicU64::new(0));
    let waiter = |_| {
        let (gate, arrived) = (gate.clone(), arrived.clone());
        spawn(async move {
            arrived.fetch_add(1, Ordering::Relaxed);
            gate.acquire().await.is_err() as u64 // it is closed, not opened
        })
    };
    let start = Instant::now();
    let tasks: Vec<_> = (0..ops).map(waiter).collect();
    while arrived.load(Ordering::Relaxed) < ops {
        yield_now().await;
    }
    let create = start.elapsed();
    let start = Instant::now();
    gate.close();
    assert_eq!(join_all(tasks).await, ops);
    (create.as_nanos() as u64, start.elapsed().as_nanos() as u64)
}

fn blocked_create(ops: u64, workers: usize) -> u64 {
    run(workers, blocked(ops)).0
}

fn blocked_wake(ops: u64, workers: usize) -> u64 {
    run(workers, blocked(ops)).1
}

/// Gives the sum of what all tasks overslept.
async fn sleepers(ops: u64) -> u64 {
    let sleeper = |i| {
        spawn(async move {
            let span = Duration::from_millis(1 + i * 7919 % 1000);
            let start = Instant::now();
            tokio::time::sleep(span).await;
            (start.elapsed() - span).as_nanos() as u64
        })
    };
    join_all((0..ops).map(sleeper).collect()).await
}

fn sleep(ops: u64, workers: usize) -> u64 {
    measure(workers, async move {
        sleepers(ops).await;
    })
}

fn sleep_late(ops: u64, workers: usize) -> u64 {
    run(workers, sleepers(ops))
}

/// Serves the load until it has ended: its time, and the 99th percentile of its requests.
async fn echo(ops: u64, connections: u64, more: &'static [&'static str]) -> (u64, u64) {
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let port = listener.local_addr().unwrap().port();
    let server = spawn(async move {
        loop {
            let (mut socket, _) = listener.accept().await.unwrap();
            socket.set_nodelay(true).unwrap();
            spawn(async move {
                let mut buffer = [0u8; 4096];
                while let Ok(got) = socket.read(&mut buffer).await {
                    if got == 0 || socket.write_all(&buffer[..got]).await.is_err() {
                        break;
                    }
                }
            });
        }
    });
    let (done, said) = oneshot::channel();
    std::thread::spawn(move || {
        let output = std::process::Command::new(std::env::var("BENCH_LOAD").unwrap())
            .args([port.to_string(), connections.to_string(), ops.to_string()])
            .args(more)
            .output()
            .unwrap();
        done.send(String::from_utf8(output.stdout).unwrap()).unwrap();
    });
    let said = said.await.unwrap();
    let figures: Vec<u64> = said.split_whitespace().map(|f| f.parse().unwrap()).collect();
    server.abort();
    (figures[0], figures[2])
}

fn echo_time<const CONNECTIONS: u64>(ops: u64, workers: usize) -> u64 {
    measure(workers, async move {
        echo(ops, CONNECTIONS, &[]).await;
    })
}

fn echo_p99<const CONNECTIONS: u64>(ops: u64, workers: usize) -> u64 {
    run(workers, async move { echo(ops, CONNECTIONS, &[]).await.1 * ops })
}

fn churn(ops: u64, workers: usize) -> u64 {
    measure(workers, async move {
        echo(ops, 50, &["churn"]).await;
    })
}

fn idle_connections(ops: u64, workers: usize) -> u64 {
    measure(workers, async move {
        echo(ops, ops, &[]).await;
    })
}

const fn row(name: &'static str, unit: &'static str, ops: u64, run: Run) -> Row {
    Row { name, variant: "tokio", unit, ops, workers: 1, run }
}

fn main() {
    answer(&[
        row("spawn-join-1000", "task", 100_000, spawn_join),
        row("spawn-await", "task", 100_000, spawn_await),
        row("spawn-outside-1000", "task", 100_000, spawn_outside),
        row("yield-2", "switch", 200_000, yield_among::<2>),
        row("yield-1000", "switch", 500_000, yield_among::<1000>),
        row("ping-pong", "round trip", 200_000, ping_pong),
        row("chan-1p1c", "item", 500_000, channel_1p1c),
        row("chan-4p4c", "item", 500_000, channel_4p4c),
        row("ring-503", "hop", 500_000, ring),
        row("sieve-2000", "run", 1, sieve),
        row("oneshot", "value", 1_000_000, one_shot),
        row("broadcast-4", "item", 500_000, broadcast_4),
        row("watch", "version", 500_000, watch_it),
        row("mutex-1", "lock", 1_000_000, mutex::<1>),
        row("mutex-4", "lock", 500_000, mutex::<4>),
        row("mutex-64", "lock", 500_000, mutex::<64>),
        row("rwlock-read-1", "lock", 1_000_000, rwlock::<1, 0>),
        row("rwlock-write-1", "lock", 1_000_000, rwlock::<1, 1>),
        row("rwlock-8", "lock", 500_000, rwlock::<8, 1>),
        row("sem-1", "permit", 1_000_000, semaphore::<1>),
        row("sem-8", "permit", 500_000, semaphore::<8>),
        row("notify-1", "notice", 1_000_000, notify),
        row("barrier-1", "arrival", 400_000, barrier::<1>),
        row("barrier-4", "arrival", 400_000, barrier::<4>),
        row("once-get", "look", 20_000_000, once_get),
        row("once-set", "cell", 1_000_000, once_set),
        row("skynet-1m", "run", 1, skynet),
        row("wake-parked", "wake", 500, wake_parked),
        row("blocked-1m-create", "task", 1_000_000, blocked_create),
        row("blocked-1m-wake", "task", 1_000_000, blocked_wake),
        row("sleep-1m", "task", 1_000_000, sleep),
        row("sleep-1m-late", "task", 1_000_000, sleep_late),
        row("echo-50", "request", 200_000, echo_time::<50>),
        row("echo-1000", "request", 200_000, echo_time::<1000>),
        row("echo-50-p99", "request", 200_000, echo_p99::<50>),
        row("echo-1000-p99", "request", 200_000, echo_p99::<1000>),
        row("churn-50", "connection", 10_000, churn),
        row("idle-conn", "connection", 8_000, idle_connections),
    ]);
}
