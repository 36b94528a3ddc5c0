// SPDX-License-Identifier: MIT

//! The fork-join rows of the benchmarks on rayon; bench/README.md defines each row.

use rayon::prelude::*;
use rayon::{join, scope, ThreadPool, ThreadPoolBuilder};
use std::sync::OnceLock;
use weft_peers::{answer, Row, Run};

/// Runs on a worker of the pool; the warm-up starts it, so that it is not measured.
fn measure(workers: usize, work: impl Fn() + Send + Sync) -> u64 {
    static POOL: OnceLock<ThreadPool> = OnceLock::new();
    let start = || ThreadPoolBuilder::new().num_threads(workers).build().unwrap();
    POOL.get_or_init(start).install(work);
    0
}

fn spawn_join(ops: u64, workers: usize) -> u64 {
    measure(workers, || {
        for _ in 0..ops / 1000 {
            scope(|s| (0..1000).for_each(|_| s.spawn(|_| ())));
        }
    })
}

fn spawn_await(ops: u64, workers: usize) -> u64 {
    measure(workers, || {
        for _ in 0..ops {
            scope(|s| s.spawn(|_| ()));
        }
    })
}

fn fib(n: u64) -> u64 {
    if n < 2 {
        return n;
    }
    let (a, b) = join(|| fib(n - 1), || fib(n - 2));
    a + b
}

fn fib_35(ops: u64, workers: usize) -> u64 {
    measure(workers, || {
        for _ in 0..ops {
            assert_eq!(fib(35), 9_227_465);
        }
    })
}

/// The sum over children [first, last) of a node whose children have `size` leaves.
fn skynet_children(number: u64, size: u64, first: u64, last: u64) -> u64 {
    if last - first == 1 {
        return skynet_node(number + first * size, size);
    }
    let middle = (first + last) / 2;
    let (a, b) = join(
        || skynet_children(number, size, first, middle),
        || skynet_children(number, size, middle, last),
    );
    a + b
}

fn skynet_node(number: u64, size: u64) -> u64 {
    if size == 1 {
        return number;
    }
    skynet_children(number, size / 10, 0, 10)
}

fn skynet(ops: u64, workers: usize) -> u64 {
    measure(workers, || {
        for _ in 0..ops {
            assert_eq!(skynet_node(0, 1_000_000), 499_999_500_000);
        }
    })
}

const QUEENS: usize = 13;

fn is_safe(board: &[u8; QUEENS], row: usize, column: u8) -> bool {
    (0..row).all(|i| {
        let distance = (row - i) as u8;
        board[i] != column && board[i] + distance != column && board[i] != column + distance
    })
}

fn place(board: [u8; QUEENS], row: usize) -> u64 {
    if row == QUEENS {
        return 1;
    }
    let child = |column: u8| {
        if !is_safe(&board, row, column) {
            return 0;
        }
        let mut next = board;
        next[row] = column;
        place(next, row + 1)
    };
    (0..QUEENS as u8).into_par_iter().map(child).sum()
}

fn nqueens(ops: u64, workers: usize) -> u64 {
    measure(workers, || {
        for _ in 0..ops {
            assert_eq!(place([0; QUEENS], 0), 73_712);
        }
    })
}

const fn row(name: &'static str, unit: &'static str, ops: u64, run: Run) -> Row {
    Row { name, variant: "rayon", unit, ops, workers: 1, run }
}

fn main() {
    answer(&[
        row("spawn-join-1000", "task", 500_000, spawn_join),
        row("spawn-await", "task", 500_000, spawn_await),
        row("fib-35", "run", 1, fib_35),
        row("skynet-1m", "run", 10, skynet),
        row("nqueens-13", "run", 1, nqueens),
    ]);
}
