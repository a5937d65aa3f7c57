//! Reads corrupted bus traces. The reader gives events in order or an error, and no more events than the file has room for.

mod common {
    pub mod fuzz;
}

use common::fuzz::{each, extreme, spoil};
use fastrand::Rng;
use wattbell_bus::{
    tlp, Body, Burst, Direction, Error, Player, Rail, Record, Signal, Tlp, TraceHeader, TraceReader, TraceWriter,
};

/// Some records of every kind, as written by a writer.
fn trace(rng: &mut Rng) -> Vec<u8> {
    let mut writer = TraceWriter::new(Vec::new(), &TraceHeader::default()).unwrap();
    let mut time_ps = 0;
    for _ in 0..rng.usize(..20) {
        let longest = 1 << rng.u8(1..40);
        time_ps += rng.u64(..longest);
        let direction = if rng.bool() { Direction::Down } else { Direction::Up };
        let body = match rng.u8(..6) {
            0 => Body::Tlp(direction, tlp::mem_write(1, 2, rng.u64(..) >> 2, &[7; 64])),
            1 => Body::Tlp(direction, Tlp::left_out(tlp::mem_write_header(3, 0, rng.u32(..).into(), 64))),
            2 => {
                let header = tlp::mem_write_header(0x100, 0, 4096, 256);
                time_ps += 1 << 20;
                let burst = Burst { direction, header, count: rng.u16(1..9), step_ps: 1000, step_bytes: 256 };
                writer.record(&Record { time_ps, body: Body::Burst(burst) }).unwrap();
                time_ps += 1 << 20;
                continue;
            }
            3 => Body::Missed(direction),
            4 => Body::Rail(Rail { current_na: rng.i64(..), voltage_nv: rng.i64(..) }),
            _ => Body::Sideband(Signal::ClkreqN, rng.u8(..)),
        };
        writer.record(&Record { time_ps, body }).unwrap();
    }
    writer.finish(time_ps + (1 << 20)).unwrap()
}

/// Plays it to its end or its first error; returns the number of events.
fn play(file: &[u8]) -> u64 {
    let reader = match TraceReader::new(file) {
        Ok(reader) => reader,
        Err(error) => {
            assert!(matches!(error, Error::NotATrace(_)), "{error}");
            return 0;
        }
    };
    let (mut events, mut last_ps) = (0, 0);
    for event in Player::new(reader) {
        match event {
            Ok(event) => {
                assert!(event.time_ps >= last_ps, "time goes back");
                (events, last_ps) = (events + 1, event.time_ps);
            }
            Err(error) => assert!(!matches!(error, Error::Io(_) | Error::NotATrace(_)), "{error}"),
        }
    }
    events
}

#[test]
fn spoilt_traces_play_in_order_or_are_named_damaged() {
    each(4000, |rng| {
        let mut file = trace(rng);
        spoil(rng, &mut file);
        let most = file.len() as u64 / 12 * 65_536;
        assert!(play(&file) <= most);
    });
}

#[test]
fn any_records_play_in_order_or_are_named_damaged() {
    each(4000, |rng| {
        let mut file = TraceWriter::new(Vec::new(), &TraceHeader { summaries: true, ..TraceHeader::default() })
            .unwrap()
            .finish(0)
            .unwrap();
        file.truncate(file.len() - 12);
        let mut time_ps = 0u64;
        for _ in 0..rng.usize(..12) {
            time_ps = time_ps.saturating_add(if rng.u8(..20) == 0 { extreme(rng) } else { rng.u64(..1 << 30) });
            let body: Vec<u8> = (0..[0, 2, 12, 16, 24, 28, 80, 200][rng.usize(..8)]).map(|_| rng.u8(..)).collect();
            file.extend([rng.u8(..9), rng.u8(..3)]);
            file.extend((body.len() as u16).to_le_bytes());
            file.extend(time_ps.to_le_bytes());
            file.extend(body);
        }
        play(&file);
    });
}

#[test]
fn a_header_of_four_gigabytes_is_refused_before_room_is_made_for_it() {
    for length in [1u32 << 20 | 1, 1 << 31, u32::MAX] {
        let mut file = b"WBBT\x01\0\0\0".to_vec();
        file.extend(length.to_le_bytes());
        let error = TraceReader::new(&file[..]).err().unwrap();
        assert!(error.to_string().contains("JSON header would be"), "{error}");
    }
}
