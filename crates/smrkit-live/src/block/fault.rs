//! Faults that are injected into a served drive, and their names.

use std::fmt;
use std::str::FromStr;

use smrkit::error::Error;
use smrkit::names::known;
use smrkit::quantity::{exact_duration, parse_count, parse_duration};
use smrkit::units::Nanos;

/// A fault that is injected into a drive.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum InjectedFault {
    /// The power is cut at the next physical write; how much of that is written, the seed decides.
    PowerCut(u64),
    /// Reads of a sector fail until it is written.
    BadSector(u64),
    /// The next request takes this much longer.
    Slow(Nanos),
    /// The next request never completes.
    Timeout,
}

impl fmt::Display for InjectedFault {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            InjectedFault::PowerCut(seed) => write!(f, "power-cut {seed}"),
            InjectedFault::BadSector(lba) => write!(f, "bad-sector {lba}"),
            InjectedFault::Slow(span) => write!(f, "slow {}", exact_duration(*span)),
            InjectedFault::Timeout => f.write_str("timeout"),
        }
    }
}

impl FromStr for InjectedFault {
    type Err = Error;
    fn from_str(text: &str) -> Result<InjectedFault, Error> {
        let (name, value) = text.split_once(' ').unwrap_or((text, ""));
        let number = |default: Option<u64>| match (value, default) {
            ("", Some(default)) => Ok(default),
            _ => {
                parse_count(value).map_err(|_| Error::Usage(format!("'{text}': expected a whole number after {name}")))
            }
        };
        match name {
            "power-cut" => Ok(InjectedFault::PowerCut(number(Some(1))?)),
            "bad-sector" => Ok(InjectedFault::BadSector(number(None)?)),
            "slow" if value.is_empty() => {
                Err(Error::Usage(format!("'{text}': the duration is missing: slow TIME, as in slow 8s")))
            }
            "slow" => Ok(InjectedFault::Slow(parse_duration(value)?)),
            "timeout" if value.is_empty() => Ok(InjectedFault::Timeout),
            "timeout" => Err(Error::Usage(format!("'{text}': timeout takes nothing more"))),
            _ => {
                let names = ["power-cut", "bad-sector", "slow", "timeout"];
                Err(Error::Usage(format!("'{text}': {}", known(name, names.into_iter()))))
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn faults_are_named_as_they_are_asked_for() {
        let table = [
            ("power-cut 7", InjectedFault::PowerCut(7)),
            ("bad-sector 90", InjectedFault::BadSector(90)),
            ("slow 30ms", InjectedFault::Slow(Nanos(30_000_000))),
            ("timeout", InjectedFault::Timeout),
        ];
        for (name, fault) in table {
            assert_eq!((fault.to_string().as_str(), name.parse::<InjectedFault>().unwrap()), (name, fault));
        }
        let read = ["power-cut", "power-cut 1k", "bad-sector 1_000"].map(|text| text.parse::<InjectedFault>().unwrap());
        assert_eq!(read, [InjectedFault::PowerCut(1), InjectedFault::PowerCut(1000), InjectedFault::BadSector(1000)]);
        for (wrong, remedy) in [
            ("power-cut soon", "expected a whole number after power-cut"),
            ("bad-sector", "expected a whole number after bad-sector"),
            ("bad-sector -1", "expected a whole number after bad-sector"),
            ("slow", "the duration is missing: slow TIME, as in slow 8s"),
            ("timeout 5", "timeout takes nothing more"),
            ("powr-cut", "did you mean `power-cut`?"),
            ("fire", "known: power-cut, bad-sector, slow, timeout"),
        ] {
            let said = wrong.parse::<InjectedFault>().unwrap_err().to_string();
            assert!(said.contains(wrong) && said.contains(remedy), "{said}");
        }
        assert!("slow soon".parse::<InjectedFault>().is_err());
    }
}
