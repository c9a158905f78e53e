use super::*;

const WRK: &str = "Running 1s test @ http://10.98.1.2:8080/file\n  1 threads and 64 connections\n  \
    Thread Stats   Avg      Stdev     Max   +/- Stdev\n    Latency     1.02ms  300.00us   9.00ms   \
        90.00%\n    \
    Req/Sec    62.51k     3.20k   70.01k    80.00%\n  Latency Distribution\n     50%    0.98ms\n     75%    1.10ms\n     \
    90%    1.30ms\n     99%    2.25ms\n  62345 requests in 1.00s, 18.55MB read\nRequests/sec:  62280.44\nTransfer/sec:     18.53MB\n";

#[test]
fn what_wrk_says_is_read() {
    let measured = read_wrk(WRK).unwrap();
    assert_eq!(measured.values["requests_per_second"], 62_280.44);
    assert_eq!(measured.values["p99_us"], 2_250.0);
    assert_eq!(measured.warnings, [""; 0]);
    let failed = WRK.replace(
        "Requests/sec:",
        "  Socket errors: connect 0, read 3, write 0, timeout 0\nRequests/sec:",
    );
    assert_eq!(
        read_wrk(&failed).unwrap().warnings,
        ["wrk: Socket errors: connect 0, read 3, write 0, timeout 0"]
    );
    assert!(read_wrk("unable to connect to 10.98.1.2:8080 Connection refused").is_err());
}

#[test]
fn what_redis_benchmark_says_is_read() {
    let out = "\"test\",\"rps\",\"avg_latency_ms\",\"min_latency_ms\",\"p50_latency_ms\",\"p95_latency_ms\",\"p99_latency_ms\",\"max_latency_ms\"\n\
               \"GET\",\"91743.12\",\"0.290\",\"0.104\",\"0.279\",\"0.391\",\"0.519\",\"1.943\"\n";
    let measured = read_redis(out).unwrap();
    assert_eq!(
        (measured.values["requests_per_second"], measured.values["p99_us"]),
        (91_743.12, 519.0)
    );
    assert!(
        read_redis("Could not connect to Redis at 10.98.1.2:6379: Connection refused\n").is_err()
    );
}

#[test]
fn times_have_the_units_of_wrk() {
    assert_eq!(microseconds("812.00us"), Some(812.0));
    assert_eq!(microseconds("1.50s"), Some(1_500_000.0));
    assert_eq!(microseconds("2.00m"), Some(120_000_000.0));
    assert_eq!(microseconds("many"), None);
}

#[test]
fn loads_have_different_names_and_those_of_a_look_are_among_them() {
    for (index, load) in LOADS.iter().enumerate() {
        assert!(LOADS[..index].iter().all(|other| other.key != load.key), "{}", load.key);
    }
    assert!(QUICK.iter().all(|key| Load::find(key).is_some()));
}

#[test]
fn rows_that_a_stack_inside_or_a_bare_loop_cannot_serve_say_why() {
    let why = |key| {
        let load = Load::find(key).unwrap();
        (load.why_not_inside().is_some(), load.why_no_loop().is_some())
    };
    assert_eq!(why("redis-get-p16"), (false, false));
    assert_eq!(why("nginx-100k"), (false, false));
    assert_eq!(why("memcached"), (false, true));
    assert_eq!(why("haproxy-64"), (true, false));
    for key in ["pgbench", "pgbench-close"] {
        assert_eq!(why(key), (true, true));
    }
}
