// SPDX-License-Identifier: MIT

//! The peer's side of the harness: `--list`, or measure one row and print a line of JSON.

use std::time::Instant;

/// What one row does: `ops` operations on `workers` workers.  Gives 0 to be timed as a whole, or
/// its own nanoseconds; CPU time is not reported then.
pub type Run = fn(ops: u64, workers: usize) -> u64;

pub struct Row {
    pub name: &'static str,
    pub variant: &'static str,
    pub unit: &'static str,
    pub ops: u64,
    pub workers: u32,
    pub run: Run,
}

fn cpu_time_ns() -> u64 {
    let mut now: libc::rusage = unsafe { std::mem::zeroed() };
    unsafe { libc::getrusage(libc::RUSAGE_SELF, &mut now) };
    let s = (now.ru_utime.tv_sec + now.ru_stime.tv_sec) as u64;
    let us = (now.ru_utime.tv_usec + now.ru_stime.tv_usec) as u64;
    s * 1_000_000_000 + us * 1000
}

fn peak_kb() -> String {
    let status = std::fs::read_to_string("/proc/self/status").unwrap();
    let line = status.lines().find_map(|line| line.strip_prefix("VmHWM:")).unwrap();
    line.split_whitespace().next().unwrap().to_string()
}

pub fn answer(rows: &[Row]) {
    let args: Vec<String> = std::env::args().collect();
    if args.len() == 2 && args[1] == "--list" {
        for row in rows {
            println!(
                r#"{{"row":"{}","variant":"{}","unit":"{}","ops":{},"workers":{}}}"#,
                row.name, row.variant, row.unit, row.ops, row.workers
            );
        }
        return;
    }
    assert!(args.len() == 5, "usage: --list | ROW VARIANT OPS WORKERS");
    let row = rows.iter().find(|row| row.name == args[1] && row.variant == args[2]);
    let row = row.expect("no such row");
    let ops: u64 = args[3].parse().expect("ops");
    let workers: usize = args[4].parse().expect("workers");
    if ops >= 10 {
        (row.run)(ops / 10, workers);
    }
    let before = cpu_time_ns();
    let start = Instant::now();
    let counted = (row.run)(ops, workers);
    let wall = start.elapsed().as_nanos() as u64;
    let cpu = cpu_time_ns() - before;
    println!(
        r#"{{"row":"{}","variant":"{}","ops":{},"wall_ns":{},"cpu_ns":{},"rss_kb":{}}}"#,
        row.name,
        row.variant,
        ops,
        if counted != 0 { counted } else { wall },
        if counted != 0 { 0 } else { cpu },
        peak_kb()
    );
}
