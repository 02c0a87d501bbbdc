//! The training of `cargo xtask meter-cost` with the system's allocator.

#[path = "../meter_cost/work.rs"]
mod work;

fn main() {
    let arguments: Vec<String> = std::env::args().collect();
    let steps = arguments[2].parse().expect("a number of steps");
    println!("{}", work::work(&arguments[1], steps).expect("training works"));
}
