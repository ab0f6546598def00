//! Time, tasks and processes.

use parking_lot::Mutex;
use simenv::machine::{Kill, Skew};
use simenv::world::{Stuck, World};
use std::sync::Arc;
use std::time::Duration;

const SECOND: Duration = Duration::from_secs(1);

/// Tasks that note when they woke; (what they noted, hash).
fn wake_ups(seed: u64) -> (Vec<(usize, Duration)>, u64) {
    let world = World::new(seed);
    let machine = world.machine(1 << 20);
    let (env, _) = world.start(machine);
    let seen = Arc::new(Mutex::new(Vec::new()));
    for number in 0..20usize {
        let (env_inside, seen) = (env.clone(), seen.clone());
        let task = async move {
            for round in 0..5u64 {
                let time = Duration::from_millis(10 * (1 + (number as u64 + round) % 3));
                env_inside.clock.sleep(time).await;
                seen.lock().push((number, env_inside.clock.now()));
            }
        };
        env.tasks.spawn("sleeper", Box::pin(task));
    }
    world.run_until(SECOND);
    assert_eq!(world.failures(), Vec::<String>::new());
    let seen = seen.lock().clone();
    (seen, world.hash().value())
}

#[test]
fn one_seed_is_one_order_and_another_seed_another() {
    let (first, hash) = wake_ups(1);
    assert_eq!(first.len(), 100);
    assert!(first.windows(2).all(|pair| pair[0].1 <= pair[1].1), "time goes on");
    assert_eq!(wake_ups(1), (first.clone(), hash));
    let (other, other_hash) = wake_ups(2);
    assert_ne!(first, other);
    assert_ne!(hash, other_hash);
}

#[test]
fn a_long_wait_costs_nothing_and_clocks_differ() {
    let world = World::new(3);
    let (straight, skewed) = (world.machine(0), world.machine(0));
    world.set_skew(skewed, Skew { wall_ms: -5_000, rate_ppm: 1_000 });
    let ((a, _), (b, _)) = (world.start(straight), world.start(skewed));
    assert_eq!(a.clock.wall().sec - b.clock.wall().sec, 5);
    let (clock_a, clock_b) = (a.clock.clone(), b.clock.clone());
    let waits = async move {
        clock_b.sleep(1000 * SECOND).await;
        (clock_a.now(), clock_b.now())
    };
    let (true_time, fast) = world.block_on(waits, 2000 * SECOND).unwrap();
    assert!(fast >= 1000 * SECOND && fast < 1001 * SECOND, "{fast:?}");
    assert!(true_time < 1000 * SECOND && true_time > 998 * SECOND, "{true_time:?}");
}

#[test]
fn a_killed_process_does_nothing_more() {
    struct Bell(Arc<Mutex<Vec<&'static str>>>, env::Env);
    impl Drop for Bell {
        fn drop(&mut self) {
            self.0.lock().push("dropped");
            let seen = self.0.clone();
            self.1.tasks.spawn(
                "last words",
                Box::pin(async move { seen.lock().push("spoke from the grave") }),
            );
        }
    }
    let world = World::new(4);
    let machine = world.machine(1 << 20);
    let (env, process) = world.start(machine);
    let seen = Arc::new(Mutex::new(Vec::new()));
    let bell = Bell(seen.clone(), env.clone());
    let clock = env.clock.clone();
    let task = async move {
        let bell = bell;
        clock.sleep(SECOND).await;
        bell.0.lock().push("woke");
    };
    env.tasks.spawn("victim", Box::pin(task));
    let work = seen.clone();
    world.run_until(SECOND / 2);
    env.tasks.spawn_blocking("work", Box::new(move || work.lock().push("worked")));
    world.kill(&process, Kill::Process);
    assert!(!process.is_alive());
    world.run_until(5 * SECOND);
    assert_eq!(*seen.lock(), ["dropped"]);
    // The next process on the same machine is another one.
    let (env, again) = world.start(machine);
    assert!(again.is_alive());
    assert_eq!(env.clock.now(), Duration::ZERO, "monotonic time begins with the process");
}

#[test]
fn blocking_work_runs_later_and_not_on_a_task() {
    let world = World::new(5);
    let (env, _) = world.start(world.machine(1 << 20));
    let where_it_ran = Arc::new(Mutex::new(Vec::new()));
    let (inside, seen) = (env.clone(), where_it_ran.clone());
    let task = async move {
        seen.lock().push(inside.tasks.on_reactor());
        let (tasks, clock, from_work) = (inside.tasks.clone(), inside.clock.clone(), seen.clone());
        inside.tasks.spawn_blocking(
            "work",
            Box::new(move || {
                from_work.lock().push(tasks.on_reactor());
                assert!(clock.now() > Duration::ZERO);
            }),
        );
    };
    env.tasks.spawn("asks", Box::pin(task));
    world.run_until(SECOND);
    assert_eq!(world.failures(), Vec::<String>::new());
    assert_eq!(*where_it_ran.lock(), [true, false]);
}

#[test]
fn what_must_not_happen_is_told() {
    let world = World::new(6);
    let (env, _) = world.start(world.machine(0));
    env.tasks.spawn("careless", Box::pin(async { panic!("on {}", "purpose") }));
    let clock = env.clock.clone();
    let stuck = world.block_on(async move { clock.sleep(SECOND).await }, 2 * SECOND);
    assert_eq!(stuck, Err(Stuck::Failed(vec!["`careless` panicked: on purpose".to_owned()])));
    env.tasks.spawn_thread("commit loop", Box::new(|| ()));
    assert_eq!(world.failures().len(), 2);

    let world = World::new(7);
    world.machine(0);
    let never = world.block_on(std::future::pending::<()>(), SECOND);
    assert!(matches!(never, Err(Stuck::Idle(_))), "{never:?}");
}

#[test]
fn a_loop_without_end_is_found() {
    let world = World::new(8);
    let spins = std::future::poll_fn(|cx| {
        cx.waker().wake_by_ref();
        std::task::Poll::<()>::Pending
    });
    match world.block_on(spins, SECOND) {
        Err(Stuck::Failed(why)) => assert!(why[0].contains("without end"), "{why:?}"),
        other => panic!("{other:?}"),
    }
}
