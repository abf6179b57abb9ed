"""Which method is cheapest on this data, and how sure is that: methods, runner, statistics, comparison."""
