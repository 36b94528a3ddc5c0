// SPDX-License-Identifier: MIT

//! The queue rows of the benchmarks on crossbeam's deques and queues; bench_queue.c defines them.

use crossbeam_deque::{Injector, Steal, Stealer, Worker};
use crossbeam_queue::SegQueue;
use std::hint::{black_box, spin_loop};
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::OnceLock;
use std::thread;
use std::time::Instant;
use weft_peers::{answer, Row, Run};

const BURST: u64 = 64;
const WINDOW: u64 = 128;
const SETS: u64 = 8; // thefts timed together

type Make = fn() -> Worker<usize>;
const LIFO: Make = Worker::new_lifo;
const FIFO: Make = Worker::new_fifo;

fn push_pop(ops: u64, burst: u64, make: Make) -> u64 {
    let queue = make();
    let mut popped = 0;
    for _ in 0..ops / burst {
        for i in 0..burst {
            queue.push(black_box(i as usize));
        }
        for _ in 0..burst {
            popped += black_box(queue.pop()).is_some() as u64;
        }
    }
    assert_eq!(popped, ops / burst * burst);
    0
}

fn steal_singles(ops: u64, count: u64) -> u64 {
    let queues: Vec<_> = (0..SETS).map(|_| FIFO()).collect();
    let stealers: Vec<_> = queues.iter().map(Worker::stealer).collect();
    let mut spent = 0;
    for _ in 0..ops / SETS {
        for queue in &queues {
            (queue.len()..128).for_each(|i| queue.push(i));
        }
        let start = Instant::now();
        for stealer in &stealers {
            for _ in 0..count {
                assert!(black_box(stealer.steal()).is_success());
            }
        }
        spent += start.elapsed().as_nanos() as u64;
    }
    spent
}

/// The most that crossbeam moves at once: 32 of these 256, one of them given out.
fn steal_batch(ops: u64, _: usize) -> u64 {
    let queues: Vec<_> = (0..SETS).map(|_| (FIFO(), FIFO())).collect();
    let mut spent = 0;
    for _ in 0..ops / SETS {
        for (from, into) in &queues {
            (from.len()..256).for_each(|i| from.push(i));
            while into.pop().is_some() {}
        }
        let start = Instant::now();
        for (from, into) in &queues {
            assert!(black_box(from.stealer().steal_batch_and_pop(into)).is_success());
        }
        spent += start.elapsed().as_nanos() as u64;
    }
    spent
}

fn inject_1(ops: u64, _: usize) -> u64 {
    let queue = Injector::new();
    for i in 0..ops {
        queue.push(black_box(i));
        assert!(black_box(queue.steal()).is_success());
    }
    0
}

fn inject_64(ops: u64, _: usize) -> u64 {
    let queue = Injector::new();
    let local = FIFO();
    for _ in 0..ops / BURST {
        (0..BURST).for_each(|i| queue.push(black_box(i as usize)));
        let mut taken = 0;
        while queue.steal_batch_and_pop(&local).is_success() {
            taken += 1;
            while black_box(local.pop()).is_some() {
                taken += 1;
            }
        }
        assert_eq!(taken, BURST);
    }
    0
}

fn mpsc(ops: u64, burst: u64) -> u64 {
    let queue = SegQueue::new();
    for _ in 0..ops / burst {
        (0..burst).for_each(|i| queue.push(black_box(i)));
        for _ in 0..burst {
            assert!(black_box(queue.pop()).is_some());
        }
    }
    0
}

/// Binds this thread to the first or the second of the cores there are, if there are two.
fn bind(number: usize) {
    static CORES: OnceLock<Vec<usize>> = OnceLock::new(); // once: from then on this one is bound
    let size = std::mem::size_of::<libc::cpu_set_t>();
    unsafe {
        let mut set: libc::cpu_set_t = std::mem::zeroed();
        let cores = CORES.get_or_init(|| {
            libc::sched_getaffinity(0, size, &mut set);
            (0..size * 8).filter(|&cpu| libc::CPU_ISSET(cpu, &set)).collect()
        });
        if cores.len() > 1 {
            set = std::mem::zeroed();
            libc::CPU_SET(cores[number], &mut set);
            libc::sched_setaffinity(0, size, &set);
        }
    }
}

fn look_again(spins: &mut u32) {
    *spins += 1;
    if *spins < 64 {
        spin_loop();
    } else {
        *spins = 0;
        thread::yield_now();
    }
}

#[derive(Default)]
struct Pair {
    is_ready: AtomicBool, // the taker is at work
    is_done: AtomicBool,  // the owner has nothing left
    taken: AtomicU64,
}

/// Takes until the other thread is done and nothing is left; publishes how many were taken.
fn take_until_done(mut take: impl FnMut() -> u64, pair: &Pair) {
    let (mut sum, mut spins) = (0, 0);
    bind(1);
    pair.is_ready.store(true, Ordering::Release);
    loop {
        let is_last = pair.is_done.load(Ordering::Acquire);
        let count = take();
        if count > 0 {
            sum += count;
            pair.taken.store(sum, Ordering::Release);
        } else if is_last {
            return;
        } else {
            look_again(&mut spins);
        }
    }
}

/// Runs `put` here and `take` on another thread; `put` gives what it took back itself.
fn between_two(ops: u64, put: impl Fn(&AtomicU64) -> u64, take: impl FnMut() -> u64 + Send) -> u64 {
    let pair = Pair::default();
    bind(0);
    thread::scope(|scope| {
        let taker = scope.spawn(|| take_until_done(take, &pair));
        let mut spins = 0;
        while !pair.is_ready.load(Ordering::Acquire) {
            look_again(&mut spins);
        }
        let popped = put(&pair.taken);
        pair.is_done.store(true, Ordering::Release);
        taker.join().unwrap();
        assert_eq!(popped + pair.taken.load(Ordering::Relaxed), ops);
    });
    0
}

fn hand_over(ops: u64, push: impl Fn(usize), take: impl FnMut() -> u64 + Send) -> u64 {
    let put = |taken: &AtomicU64| {
        let (mut seen, mut spins) = (0, 0);
        for sent in 0..ops {
            while sent - seen >= WINDOW {
                seen = taken.load(Ordering::Acquire);
                if sent - seen >= WINDOW {
                    look_again(&mut spins);
                }
            }
            push(sent as usize);
        }
        0
    };
    between_two(ops, put, take)
}

/// What a thief of this kind of deque does: one item, or with a queue of its own a batch.
fn thief(stealer: Stealer<usize>, batch: bool) -> impl FnMut() -> u64 + Send {
    let local = FIFO();
    move || {
        let stolen = if batch { stealer.steal_batch_and_pop(&local) } else { stealer.steal() };
        let mut count = stolen.is_success() as u64;
        while batch && count > 0 && black_box(local.pop()).is_some() {
            count += 1;
        }
        count
    }
}

fn owner_thief(ops: u64, make: Make, batch: bool) -> u64 {
    let queue = make();
    let put = |_: &AtomicU64| {
        let mut popped = 0;
        for _ in 0..ops / BURST {
            (0..BURST).for_each(|i| queue.push(i as usize));
            while black_box(queue.pop()).is_some() {
                popped += 1;
            }
        }
        popped
    };
    between_two(ops / BURST * BURST, put, thief(queue.stealer(), batch))
}

fn hand_deque(ops: u64, make: Make, batch: bool) -> u64 {
    let queue = make();
    hand_over(ops, |i| queue.push(i), thief(queue.stealer(), batch))
}

fn hand_inject(ops: u64, _: usize) -> u64 {
    let (queue, local) = (&Injector::new(), FIFO());
    let take = move || match queue.steal_batch_and_pop(&local) {
        Steal::Success(_) => 1 + std::iter::from_fn(|| local.pop()).count() as u64,
        _ => 0,
    };
    hand_over(ops, |i| queue.push(i), take)
}

fn hand_segqueue(ops: u64, _: usize) -> u64 {
    let queue = SegQueue::new();
    hand_over(ops, |i| queue.push(i), || queue.pop().is_some() as u64)
}

const ALONE: u64 = 6400 * 400;
const STEAL: u64 = 800 * 50;
const PAIR: u64 = 6400 * 200;

const fn row(name: &'static str, variant: &'static str, ops: u64, run: Run) -> Row {
    let unit = if ops == STEAL { "theft" } else { "item" };
    Row { name, variant, unit, ops, workers: 0, run }
}

fn main() {
    answer(&[
        row("push-pop-1", "crossbeam-lifo", ALONE, |ops, _| push_pop(ops, 1, LIFO)),
        row("push-pop-1", "crossbeam-fifo", ALONE, |ops, _| push_pop(ops, 1, FIFO)),
        row("push-pop-64", "crossbeam-lifo", ALONE, |ops, _| push_pop(ops, 64, LIFO)),
        row("push-pop-64", "crossbeam-fifo", ALONE, |ops, _| push_pop(ops, 64, FIFO)),
        row("steal", "crossbeam-20-single", STEAL, |ops, _| steal_singles(ops, 20)),
        row("steal", "crossbeam-128-single", STEAL, |ops, _| steal_singles(ops, 128)),
        row("steal", "crossbeam-batch-32", STEAL, steal_batch),
        row("inject-1", "crossbeam-injector", ALONE, inject_1),
        row("inject-64", "crossbeam-injector", ALONE, inject_64),
        row("mpsc-1", "crossbeam-segqueue", ALONE, |ops, _| mpsc(ops, 1)),
        row("mpsc-64", "crossbeam-segqueue", ALONE, |ops, _| mpsc(ops, 64)),
        row("owner-thief", "crossbeam-lifo", PAIR, |ops, _| owner_thief(ops, LIFO, false)),
        row("owner-thief", "crossbeam-fifo", PAIR, |ops, _| owner_thief(ops, FIFO, true)),
        row("hand-over", "crossbeam-lifo", PAIR, |ops, _| hand_deque(ops, LIFO, false)),
        row("hand-over", "crossbeam-fifo", PAIR, |ops, _| hand_deque(ops, FIFO, true)),
        row("hand-over", "crossbeam-injector", PAIR, hand_inject),
        row("hand-over", "crossbeam-segqueue", PAIR, hand_segqueue),
    ]);
}
