"""Which method is cheapest on this data, and how sure is that: recipes, runner, statistics, comparison."""
