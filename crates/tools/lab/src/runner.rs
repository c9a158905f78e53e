//! Measures the systems of a scenario in turn.

use std::collections::BTreeMap;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant, SystemTime, UNIX_EPOCH};

use crate::machine::{self, CoreTime, Machine};
use crate::need::Facts;
use crate::placement::{Placement, probe};
use crate::process::{Died, Stopped};
use crate::report::{FORMAT, Failure, LeftOut, Point, Report, Sample, SystemNote};
use crate::scenario::{Scenario, System, needs};
use crate::world::{Options, World};

/// A system that failed so often without a result is not tried any more.
const GIVE_UP: u32 = 3;

/// Who is told how far a run is.
pub trait Watch {
    /// A scenario begins, with so many measurements.
    fn begin(&mut self, scenario: &dyn Scenario, steps: usize);

    /// So many are done, and this is next; how long the rest takes, as far as can be told.
    fn step(&mut self, done: usize, next: &str, left: Option<Duration>);

    /// Something happened that somebody should know of.
    fn say(&mut self, line: &str);

    /// The scenario is over.
    fn end(&mut self);
}

/// One measurement.
type Step<'a> = (u32, &'a Point, &'a dyn System);

/// Runs a scenario. A run that is stopped tells what it has until then; that a system fails is
/// noted, and no error.
pub fn run(
    scenario: &dyn Scenario,
    options: &Options,
    facts: &Facts,
    watch: &mut dyn Watch,
    stop: &AtomicBool,
) -> anyhow::Result<Report> {
    let world = World::new(options, facts, stop)?;
    let mut left_out = Vec::new();
    let systems = choose_systems(scenario, options, facts, &mut left_out)?;
    let points = choose_points(scenario, options)?;
    let mut report = blank(scenario, options, facts);
    report.systems = systems.iter().map(|system| system.note().clone()).collect();
    report.points.clone_from(&points);
    let steps = plan(&world, &systems, &points, &mut left_out);
    left_out.iter().for_each(|left| watch.say(&left_out_line(left)));
    report.left_out = left_out;
    let reference = choose_reference(scenario, options, &report.systems, watch);
    watch.begin(scenario, steps.len());
    let begun = Instant::now();
    let mut failed: BTreeMap<&str, u32> = BTreeMap::new();
    let mut done: BTreeMap<&str, (u32, &str)> = BTreeMap::new();
    for (index, (round, point, system)) in steps.iter().enumerate() {
        let key = system.note().key.as_str();
        let left = (index > 0)
            .then(|| begun.elapsed().div_f64(index as f64).mul_f64((steps.len() - index) as f64));
        watch.step(
            index,
            &format!("round {round} of {}, {}, {key}", options.rounds, point.key),
            left,
        );
        if failed.get(key).is_some_and(|count| *count >= GIVE_UP) {
            continue;
        }
        if let Some((_, why)) = done.get(key).filter(|(in_round, _)| in_round == round) {
            let left =
                LeftOut { system: key.into(), point: Some(point.key.clone()), why: (*why).into() };
            if !report.left_out.contains(&left) {
                report.left_out.push(left);
            }
            continue;
        }
        let at = begun.elapsed();
        let mut one = || measure(&world, *system, point, *round, at, &mut report.programs);
        let measured = match one() {
            // The driver of memif may crash a program whose peer goes away while it polls (DPDK
            // 22.11): that says nothing of the system.
            Err(error) if error.is::<Died>() => {
                watch.say(&format!("{key} at {}, round {round}: {error:#}; once more", point.key));
                one()
            }
            other => other,
        };
        match measured {
            Ok(sample) => {
                failed.remove(key);
                if let Some(why) = scenario.enough(point, &sample) {
                    done.insert(key, (*round, why));
                }
                report.samples.push(sample);
            }
            Err(error) if error.is::<Stopped>() || stop.load(Ordering::Relaxed) => break,
            Err(error) => {
                let count = failed.entry(key).or_default();
                *count += 1;
                let given_up = if *count == GIVE_UP { "; it is not tried any more" } else { "" };
                watch.say(&format!(
                    "{key} at {}, round {round}, failed: {error:#}{given_up}",
                    point.key
                ));
                let (system, point, error) =
                    (key.to_string(), point.key.clone(), format!("{error:#}"));
                report.failures.push(Failure { system, point, round: *round, error });
            }
        }
    }
    watch.end();
    report.stopped = stop.load(Ordering::Relaxed);
    report.took_seconds = begun.elapsed().as_secs_f64();
    scenario.derive(&mut report.samples);
    report.compute(&reference);
    Ok(report)
}

/// What the others are compared with: what was asked for, or what the scenario says, if it is
/// measured; otherwise the first that is not ours.
fn choose_reference(
    scenario: &dyn Scenario,
    options: &Options,
    systems: &[SystemNote],
    watch: &mut dyn Watch,
) -> String {
    let wanted = options.reference.as_deref().unwrap_or(scenario.reference());
    let measured = |system: &&SystemNote| system.key == wanted;
    let foreign = |system: &&SystemNote| !system.ours && !system.floor;
    let chosen = systems
        .iter()
        .find(measured)
        .or_else(|| systems.iter().find(foreign))
        .or_else(|| systems.first());
    let chosen = chosen.map_or(wanted, |system| system.key.as_str());
    if chosen != wanted {
        watch.say(&format!("{wanted} is not measured: ratios are to {chosen}"));
    }
    chosen.into()
}

/// What a line says of a system that is left out.
pub fn left_out_line(left: &LeftOut) -> String {
    match &left.point {
        Some(point) => format!("left out: {} at {point}: {}", left.system, left.why),
        None => format!("left out: {}: {}", left.system, left.why),
    }
}

fn choose_systems(
    scenario: &dyn Scenario,
    options: &Options,
    facts: &Facts,
    left_out: &mut Vec<LeftOut>,
) -> anyhow::Result<Vec<Box<dyn System>>> {
    let all = scenario.systems(options);
    let names: Vec<String> = all.iter().map(|system| system.note().key.clone()).collect();
    if let Some(twice) =
        names.iter().enumerate().find(|(index, name)| names[..*index].contains(name))
    {
        anyhow::bail!(
            "{} has a system `{}` already. Give the --server another name.",
            scenario.name(),
            twice.1
        );
    }
    for wanted in options.systems.iter().chain(&options.reference) {
        if !names.contains(wanted) {
            anyhow::bail!(
                "{} has no system `{wanted}`; it has {}.",
                scenario.name(),
                names.join(", ")
            );
        }
    }
    let mut systems = Vec::new();
    for system in all {
        let key = &system.note().key;
        if !options.systems.is_empty() && !options.systems.contains(key) {
            continue;
        }
        match system.needs().iter().find_map(|need| need.missing(facts)) {
            None => systems.push(system),
            Some(why) => left_out.push(LeftOut { system: key.clone(), point: None, why }),
        }
    }
    if systems.is_empty() {
        let why: Vec<String> = left_out.iter().map(left_out_line).collect();
        anyhow::bail!("{} has nothing to measure here.\n{}", scenario.name(), why.join("\n"));
    }
    Ok(systems)
}

fn choose_points(scenario: &dyn Scenario, options: &Options) -> anyhow::Result<Vec<Point>> {
    // Whoever names points wants those, quick or not.
    let quick = options.quick && options.points.is_empty();
    let mut points = scenario.points(&Options { quick, ..options.clone() });
    let names: Vec<&str> = points.iter().map(|point| point.key.as_str()).collect();
    if let Some(wanted) = options.points.iter().find(|wanted| !names.contains(&wanted.as_str())) {
        anyhow::bail!("{} has no point `{wanted}`; it has {}.", scenario.name(), names.join(", "));
    }
    points.retain(|point| options.points.is_empty() || options.points.contains(&point.key));
    Ok(points)
}

/// Round by round, point by point, one system after the other; each round begins with another
/// system.
fn plan<'a>(
    world: &World<'_>,
    systems: &'a [Box<dyn System>],
    points: &'a [Point],
    left_out: &mut Vec<LeftOut>,
) -> Vec<Step<'a>> {
    let mut steps: Vec<Step<'a>> = Vec::new();
    for round in 1..=world.options.rounds {
        for point in points {
            let first = (round - 1) as usize % systems.len();
            for system in systems[first..].iter().chain(&systems[..first]) {
                match system.skip(world, point) {
                    None => steps.push((round, point, system.as_ref())),
                    Some(why) if round == 1 => {
                        let (system, point) = (system.note().key.clone(), Some(point.key.clone()));
                        left_out.push(LeftOut { system, point, why });
                    }
                    Some(_) => {}
                }
            }
        }
    }
    steps
}

fn measure(
    world: &World<'_>,
    system: &dyn System,
    point: &Point,
    round: u32,
    at: Duration,
    programs: &mut BTreeMap<String, Vec<String>>,
) -> anyhow::Result<Sample> {
    let (server, client) = (&world.options.server_cores, &world.options.client_cores);
    let distance =
        || server.first().zip(client.first()).and_then(|(server, client)| probe(*server, *client));
    let cores: Vec<usize> = server.iter().chain(client).copied().collect();
    let (before_ns, time) = (distance(), CoreTime::of(&cores));
    let measured = system.measure(world, point)?;
    let steal = CoreTime::of(&cores).stolen_since(time);
    let placement = Placement { before_ns, after_ns: distance() };
    let key = system.note().key.clone();
    programs.entry(key.clone()).or_insert(measured.programs);
    Ok(Sample {
        system: key,
        point: point.key.clone(),
        round,
        at_seconds: at.as_secs_f64(),
        values: measured.values,
        placement,
        steal,
        load: machine::load(),
        warnings: measured.warnings,
    })
}

/// A report before anything was measured.
fn blank(scenario: &dyn Scenario, options: &Options, facts: &Facts) -> Report {
    let now = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default();
    Report {
        format: FORMAT,
        scenario: scenario.name().into(),
        title: scenario.title().into(),
        about: scenario.about().into(),
        started: machine::utc(now.as_secs()),
        took_seconds: 0.0,
        seconds: options.seconds.as_secs_f64(),
        warmup_seconds: options.warmup.as_secs_f64(),
        rounds: options.rounds,
        quick: options.quick,
        stopped: false,
        command: options.command.clone(),
        machine: Machine::look(),
        versions: facts.versions(&needs(scenario, options)),
        commit: facts.commit.clone(),
        server_cores: options.server_cores.clone(),
        client_cores: options.client_cores.clone(),
        huge_pages: facts.huge_pages,
        axis: scenario.axis(),
        metrics: scenario.metrics(),
        points: Vec::new(),
        systems: Vec::new(),
        reference: String::new(),
        left_out: Vec::new(),
        failures: Vec::new(),
        programs: BTreeMap::new(),
        samples: Vec::new(),
        groups: Vec::new(),
        group: None,
        cells: Vec::new(),
    }
}

#[cfg(test)]
mod tests;
