"""What travels between the rooms: prompts, prepared prompts, receipts, records, rows."""
