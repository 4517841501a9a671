"""Long measurements that resume and report: `resumable_work` and `reporting`, shared by all experiments here."""
