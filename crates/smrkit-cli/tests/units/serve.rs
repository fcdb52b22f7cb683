use super::*;

#[test]
fn addresses_name_a_path_or_a_port() {
    let of = |text: &str| Listen::parse(text).map(|listen| format!("{listen:?}")).map_err(|error| error.to_string());
    assert_eq!(of("unix:/tmp/a:b"), Ok("Unix(\"/tmp/a:b\")".into()));
    assert_eq!(of("tcp:127.0.0.1:10809"), Ok("Tcp(\"127.0.0.1:10809\")".into()));
    for text in ["unix:", "tcp:10809", "/tmp/a", "udp:a:1", ""] {
        assert!(of(text).unwrap_err().contains("expected unix:PATH or tcp:ADDRESS:PORT"), "{text}");
    }
}

#[test]
fn commands_get_the_address_in_either_spelling() {
    let of = |text: &str| with_uri(&text.into(), "nbd://x");
    assert_eq!(of("$uri"), "nbd://x");
    assert_eq!(of("a=${uri}/1,$uri"), "a=nbd://x/1,nbd://x");
    assert_eq!(of("plain"), "plain");
}
