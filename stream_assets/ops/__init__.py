"""Operations: running ranges headless, schedules and sensors, and what a broken contract looks like in the UI."""
