import signal

from condvae.training.signals import StopSignals


def test_a_closed_terminal_stops_a_run_but_not_under_nohup() -> None:
    before = signal.getsignal(signal.SIGHUP)
    try:
        signal.signal(signal.SIGHUP, signal.SIG_DFL)
        with StopSignals() as stop:
            signal.raise_signal(signal.SIGHUP)
            assert stop.requested
        signal.signal(signal.SIGHUP, signal.SIG_IGN)  # as nohup does
        with StopSignals() as stop:
            signal.raise_signal(signal.SIGHUP)
            assert not stop.requested
        assert signal.getsignal(signal.SIGHUP) is signal.SIG_IGN
    finally:
        signal.signal(signal.SIGHUP, before)
